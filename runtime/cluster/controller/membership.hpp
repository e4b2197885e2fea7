// The nodes of the cluster as the coordinator's daemon knows them: which have joined, which can be
// used by a job, and what they last reported. A value; the caller supplies the time.
//
//   absent -> up        joins
//   up -> leaving       its daemon has announced that it shuts down
//   up -> hung          one of its tasks does not end; no job uses the node until the task ends
//   any but absent -> lost   its connection has ended
//   any -> up           joins anew: `leaving` and `hung` end
//
// Invariants: exactly the nodes of the cluster file have an entry. A failure of a node is counted
// once: when it hangs, or when it is lost without having hung. What a node reported is dropped when
// it joins anew.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "runtime/base/result.hpp"
#include "runtime/cluster/messages.hpp"
#include "runtime/spec/job_spec.hpp"

namespace troupe::control {

// Detects that this daemon was suspended (SIGSTOP, a laptop's lid, a paused virtual machine): its
// ticks stop. Peers close a connection that is silent for 4 s, so the ends of their connections
// arrive together, soon after the suspension. A value; the caller supplies the time.
class suspension_clock {
 public:
  using instant = std::chrono::steady_clock::time_point;
  static constexpr std::chrono::seconds missed{3};  // without a tick: suspended
  static constexpr std::chrono::seconds within{5};  // for how long a suspension explains ends of connections

  void tick(instant now) {
    if (missing(now)) ended_ = past{now, now - ticked_};
    ticked_ = now;
  }
  // How long this daemon was suspended. Nullopt if it was not, or if that ended longer ago than
  // `within`.
  std::optional<std::chrono::seconds> suspended(instant now) const {
    if (missing(now)) return std::chrono::duration_cast<std::chrono::seconds>(now - ticked_);
    if (ended_ && now - ended_->at < within) return std::chrono::duration_cast<std::chrono::seconds>(ended_->length);
    return std::nullopt;
  }

 private:
  struct past {
    instant at{};
    std::chrono::steady_clock::duration length{};
  };
  bool missing(instant now) const { return ticked_ != instant{} && now - ticked_ > missed; }

  instant ticked_{};           // the last tick; instant{}: none yet
  std::optional<past> ended_;  // the last suspension that a tick has noticed
};

struct node_state {
  using instant = suspension_clock::instant;

  // Its daemon is connected and was admitted.
  bool up = false;
  // Its daemon shuts down. Remains true when it is lost; false again when it joins anew.
  bool leaving = false;
  // A task there does not end. Remains true when the node is lost; false again when the task has
  // ended or the node joins anew.
  bool hung = false;
  // The last admitted join. Absent: incarnation 0 and no address. Lost: of the daemon that was
  // lost.
  join said;
  // The last report, of any state. Empty if there is none since the node has joined.
  report last;
  // When the node became up, or was lost; instant{}: absent.
  instant since{};
  // When `last` arrived; instant{}: no report since the node has joined.
  instant reported{};
  // Since the coordinator's daemon started: daemons of this node that have joined, and its
  // failures.
  std::uint64_t lives = 0, failures = 0;

  // A job may have roles on it.
  bool usable() const { return up && !leaving && !hung; }
  bool absent() const { return since == instant{}; }
};

class membership {
 public:
  using instant = node_state::instant;

  // `self`: the coordinator's node.
  membership(const cluster_spec& cluster, std::string self);

  const std::string& self() const { return self_; }
  bool knows(const std::string& name) const { return nodes_.contains(name); }
  // The entry of a node that the cluster file does not name is an absent one.
  const node_state& at(const std::string& name) const;
  const std::map<std::string, node_state>& all() const { return nodes_; }

  // --- connections, before and after a node has joined
  void connected(const std::string& peer, std::uint64_t incarnation);  // ignored for a peer that is no node
  // The incarnation of the daemon at the other end; nullopt: not connected, or unknown.
  std::optional<std::uint64_t> connection_of(const std::string& peer) const;
  // Returns true if the peer is a node that was up.
  bool disconnected(const std::string& peer, instant now);

  // --- states. Names that are no nodes are ignored.
  // An error if the node is not admitted.
  expected<void> admit(const std::string& name, const join& m) const;
  void joined(const std::string& name, const join& m, instant now);
  bool leaves(const std::string& name);  // returns true if it is a node
  void hangs(const std::string& name);
  void recovers(const std::string& name);  // its task has ended
  void reported(const std::string& name, const report& m, instant now);

  // --- the coordinator's own daemon
  void tick(instant now) { clock_.tick(now); }
  const suspension_clock& clock() const { return clock_; }

 private:
  const std::string self_;
  std::map<std::string, node_state> nodes_;
  std::map<std::string, std::uint64_t> connections_;  // of nodes: the incarnation at the other end
  suspension_clock clock_;
};

}  // namespace troupe::control
