// What a running job needs to survive failures of nodes and of this daemon: which nodes have failed
// or have lost its roles, which are expected to rejoin, and what a plan that goes back to a saved
// state must repeat. A value; the caller supplies the time.
//
// Invariants: nodes that users have drained are not added again when they rejoin. A role may fail
// once without a step between; then its cause persists. While nodes rejoin, commands wait.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "runtime/cluster/controller/membership.hpp"
#include "runtime/cluster/controller/orders.hpp"
#include "runtime/cluster/controller/replanning.hpp"
#include "runtime/cluster/supervision/failure_book.hpp"

namespace troupe::control {

// This daemon was suspended and its peers closed their connections. They retain the job's roles for
// a while and are expected to join again.
struct rejoining {
  static constexpr std::chrono::seconds within{5};
  static constexpr std::chrono::milliseconds all_heard{500};  // until the ends of all connections have been reported
  std::set<std::string> awaited;                              // nodes that have not joined again
  failure_cause cause;                                        // for users
  instant since{};                                            // the first end of a connection
  bool counted = false;                                       // the failures of a recovery that it interrupts are counted
  // Returns true if all have joined again, or have had the time for it.
  bool over(instant now) const { return now - since >= (awaited.empty() ? std::chrono::milliseconds(all_heard) : within); }
};

class job_recovery {
 public:
  // The roles begin. `max_failures`: node failures that the job survives; nullopt: any number.
  void begin(std::optional<std::uint64_t> max_failures) { failures_ = failure_book(max_failures); }
  const failure_book& failures() const { return failures_; }
  failure_book& failures() { return failures_; }

  // --- a failure
  struct assessment {
    std::set<std::string> down;  // nodes of the cluster that the next plan must not use
    node_loss loss;
  };
  // Which nodes a plan after this failure must do without. `nodes`: of the running plan. `drained`:
  // by users. Drops all suspicions, and takes notice of the nodes that are used again when they
  // rejoin.
  assessment assess(failure_cause cause, const membership& cluster, const std::vector<std::string>& nodes,
                    const std::set<std::string>& drained);
  // A role has failed at this step. Returns false if one has failed before and no step was made
  // since.
  bool may_restart_roles(std::uint64_t step);
  // All nodes of the running plan have its roles.
  void has_all_roles() { without_roles_.clear(); }

  // --- nodes that rejoin after a suspension
  const std::optional<rejoining>& rejoins() const { return rejoins_; }
  // The connection with a node of the job has ended; it may still have its roles.
  void lost_connection(const std::string& node) { without_roles_.insert(node); }
  void begin_rejoining(rejoining r) { rejoins_ = std::move(r); }
  void await(const std::string& node) { rejoins_->awaited.insert(node); }
  // A node has joined. `with_roles`: those of the running plan.
  void joined(const std::string& node, bool with_roles);
  void end_rejoining() { rejoins_.reset(); }
  // The node can be used again, if it is one that the job continues without.
  void back(const std::string& node);
  // A plan without these nodes begins.
  void uses_all_but(const std::set<std::string>& without);
  // A user drains a node that the job continues without: the job does not use it when it is back.
  // Returns false if the node is none of these.
  bool stays_away(const std::string& node);

  // --- what a restart from a saved state must not forget
  const std::vector<set_value>& settings() const { return settings_; }  // by users
  bool paused() const { return paused_; }                               // by users; the journal has it
  bool role_pauses() const { return role_pauses_; }                     // as the coordinator role was told
  void changed(const std::string& key, double value, std::uint64_t from) { settings_.push_back({key, value, from}); }
  void pause(bool yes) { paused_ = yes; }
  void told(const command& c) {
    if (c.is<pause_command>() || c.is<resume_command>()) role_pauses_ = c.is<pause_command>();
  }
  void restore(std::vector<set_value> settings, bool paused, std::uint64_t reached);
  // The job has made a step, after this daemon restarted or not.
  void made_step() { reached_ = 0; }
  // Steps that a plan which begins at `from` makes again. `step`: the last one that was reported.
  std::uint64_t steps_again(std::uint64_t step, std::uint64_t from);

 private:
  failure_book failures_;                     // of the job since its roles began
  std::optional<rejoining> rejoins_;          // set while nodes are expected to join again
  std::set<std::string> without_roles_;       // nodes of the running plan that have failed since it began
  std::optional<std::uint64_t> role_failed_;  // step of the last restart of all roles after a role failed
  std::vector<set_value> settings_;
  bool paused_ = false, role_pauses_ = false;
  std::uint64_t reached_ = 0;  // step before this daemon restarted; 0: unknown, or a step was made since
};

}  // namespace troupe::control
