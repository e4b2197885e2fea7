// The plans of a running job: the one that its roles run, and the next one while it is made. A
// value; the caller supplies the time.
//
//   checking   the job executor makes a plan of the change, or refuses it
//   preparing  every node of that plan makes it too and connects to the others
//   draining   the coordinator role hands over, or collects the state that survives a failure
//   swapping   the nodes of both plans end their roles of the old one and begin the new ones
//
// Invariants: one next plan at a time. Generations of plans only grow, also those of plans that
// never run. Commands wait from the moment at which the present coordinator role may not carry them
// out.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "runtime/cluster/controller/orders.hpp"

namespace troupe::control {

// Failures that one recovery covers.
struct failure_cause {
  std::string why;              // for users: each of them, the first one first
  std::set<std::string> nodes;  // whose failure `why` names

  void add(const failure_cause& further);
};

// The failure that a next plan recovers from.
struct node_loss : failure_cause {
  std::set<std::string> gone;     // failed nodes of the running plan
  std::set<std::string> without;  // `gone`, and nodes of it that leave or are unreachable for others
  std::set<std::string> silent;   // nodes of it that cannot report surviving state
};

// A change that a user, or a node that shuts down, asked for.
struct plan_change {
  command wish;
  bool node_returns = false;  // as of successor
};

// The next plan.
struct successor {
  enum class phase : std::uint8_t { checking, preparing, draining, swapping };
  // As the job executor has made it.
  struct made {
    amendments changes;
    checked plan;
    mode_choice mode;   // of the plan
    bool live = false;  // continues from surviving state
  };

  phase at = phase::checking;
  std::uint32_t plan_generation = 0;
  // What it changes. In a recovery: `lose`, with the nodes that are down.
  command wish;
  // A node that shuts down asked for it; the job uses that node again when it is back.
  bool node_returns = false;
  // Set if it recovers from a failure; unset if a user, a leaving node or a returning one asked.
  std::optional<node_loss> loss;
  // Unset while checking.
  std::optional<made> plan;
  // Checking: of the job executor's answer. Preparing and swapping: of the answers of all nodes.
  // Draining: of the inventories; unset for a handover, which a step boundary ends.
  std::optional<instant> deadline;
  // Preparing and swapping: nodes that have not answered yet; else empty.
  std::set<std::string> awaited;
  // When training stopped: in a recovery from the start, else from the handover on.
  instant stopped{};
  // When the job executor had made it, all nodes had prepared it, and they began to swap.
  instant planned{}, prepared{}, swapping{};
  // Of a recovery: plans so far, with this one.
  std::uint32_t plans = 1;
  // The step that it begins at. In a recovery from a checkpoint known from preparing on, else from
  // swapping on.
  std::uint64_t step = 0;
  // A node failed while swapping: this plan never begins, and a recovery follows.
  bool broken = false;

  bool recovers() const { return loss.has_value(); }
  bool live() const { return plan && plan->live; }
  bool uses(const std::string& node) const;
};

class replanning {
 public:
  // By the job executor, and on every node. Of the nodes, these times are without one that answers.
  static constexpr std::chrono::seconds made_timeout{60};
  static constexpr std::chrono::seconds said_timeout{10};  // for surviving state
  static constexpr std::chrono::seconds swap_timeout{60};

  // --- the running plan
  // Changes since the job file.
  const amendments& changes() const { return changes_; }
  void changed_mode(const mode_choice& mode);  // by the coordinator role
  // Nullopt: its roles never began, so they have no state.
  std::optional<std::uint32_t> generation() const { return generation_; }
  // Returns true at the first step of a plan after the first one.
  bool first_step();

  // --- changes by users, as the journal has them
  void restore(const amendments& changes);
  bool restored_changes() const { return !(noted_ == amendments{}); }
  // The changes by users if they differ from those that were returned last. `away`: nodes that are
  // excluded because they failed.
  std::optional<amendments> to_note(const std::set<std::string>& away);

  // --- the next plan
  const std::optional<successor>& next() const { return next_; }
  bool next_is(successor::phase p) const { return next_ && next_->at == p; }
  bool next_is(std::uint32_t plan_generation) const { return next_ && next_->plan_generation == plan_generation; }
  bool recovers() const { return next_ && next_->recovers(); }
  // Both begin in `checking` and return the generation. A next plan that is there is replaced.
  std::uint32_t change(const command& wish, instant now);
  std::uint32_t recover(node_loss from, const command& wish, instant now);
  void stopped_at(instant when) { next_->stopped = when; }  // earlier than now
  // The next plan, a recovery, is made since `before` did not begin.
  void instead_of(const successor& before);
  void node_returns() { next_->node_returns = true; }
  void found(const plan_found& f, instant now);
  void prepare(instant now);
  // A node is ready. Returns true if all are, once.
  bool ready(const std::string& node, instant now);
  void hand_over() { drain(std::nullopt); }
  void collect_state(instant now) { drain(now + said_timeout); }
  void swap(std::uint64_t step, std::set<std::string> nodes, instant now);
  // A node has swapped its roles, or is lost while it has only roles to end. Returns true if it was
  // awaited; all_swapped(): it was the last one.
  bool swapped(const std::string& node, instant now);
  bool all_swapped() const { return next_->awaited.empty(); }
  // A node failed while swapping.
  void break_swap(const std::string& node, const failure_cause& cause);
  bool overdue(instant now) const { return next_ && next_->deadline && now > *next_->deadline; }
  // The next plan becomes the running one. Returns it. The changes of a broken recovery are
  // dropped; those of another broken plan stay, and the recovery makes them.
  successor begin();
  // Removes the next plan, if there is one, and returns it.
  std::optional<successor> drop();

  // --- commands

  // Returns true if commands wait for the next plan. False: the present coordinator role gets them.
  bool holds_commands() const { return next_ && (next_->recovers() || next_->at >= successor::phase::draining); }
  // Removes and returns the changes whose plan never began because a node failed while nodes
  // swapped. They are part of the plans after it.
  std::vector<plan_change> take_adopted() { return std::exchange(adopted_, {}); }

 private:
  void drain(std::optional<instant> deadline);

  std::uint32_t generations_ = 0;                // plans after the first, including those that never ran
  std::optional<std::uint32_t> generation_ = 0;  // of the running plan
  amendments changes_;                           // of the running plan
  amendments noted_;                             // changes by users, as in the journal
  bool begins_ = false;                          // the running plan is not the first and has made no step yet
  std::optional<successor> next_;
  std::vector<plan_change> adopted_;  // of take_adopted()
};

}  // namespace troupe::control
