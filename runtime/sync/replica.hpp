// A replica of a shard on another node: it has a copy of the shard's blocks and rule states. Chain
// replication (van Renesse and Schneider 2004): a shard sends every update to its first replica,
// each replica forwards it to the next, and the acknowledgement of the last one returns along the
// chain. Only then does the shard send the new weights to other roles. So every version that a
// worker has received is held by the whole chain, and any member of it suffices when nodes fail
// (coordinator/surviving_state.hpp).
//
// Messages in:  state (predecessor in the chain), ready{copied} (successor), quiesce, collect
//               (coordinator), halt
// Messages out: state (successor), ready{copied} (predecessor), inventory, state (coordinator)
// Messages per update and block: one state and one ready on each link of the chain. Bytes: the
// block and its rule states.
//
// In a `state`, header.version is the block's version, state.updates the number of updates that its
// rule states have seen, and state.wanted the oldest version that may be requested later. If
// state.rule is empty, the rule states are unchanged. An acknowledgement has the header.mode_epoch
// of its `state`.
//
// Invariants: the versions of a block grow within a mode epoch; a repeated update is acknowledged
// and changes nothing.
// Errors: none; messages that do not fit are dropped. Threads: as every role.
#pragma once

#include <cstdint>
#include <map>
#include <memory>

#include "runtime/plan/plan.hpp"
#include "runtime/role.hpp"

namespace troupe {

struct replica_config {
  std::uint32_t job = 0;
  role_id self = no_role;
  std::shared_ptr<const job_plan> plan;
  std::size_t rule_states = 0;
  dtype type = dtype::f32;  // of parameters
};

class replica final : public role {
 public:
  explicit replica(replica_config c);
  void on(const envelope& e, time_point now, effects& out) override;
  role_status status() const override;

 private:
  struct kept_version {
    std::uint64_t updates = 0;
    tensor value;
    tensors rule;
  };
  struct copy {
    std::uint8_t mode_epoch = 0;
    std::map<std::uint64_t, kept_version> versions;
  };
  void take(const header& h, const state& s, effects& out);
  void answer(std::uint8_t mode_epoch, std::uint64_t version, std::uint32_t block, effects& out) const;
  void send_inventory(const header& h, const quiesce& q, effects& out) const;
  void send_version(const header& h, const collect& c, effects& out) const;

  replica_config config_;
  role_id before_ = no_role, behind_ = no_role;  // predecessor and successor in the chain
  std::map<std::uint32_t, copy> blocks_;         // by block id
  bool quiesced_ = false;
};

}  // namespace troupe
