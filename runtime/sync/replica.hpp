// A replica of a shard on another node: has its blocks too, with the states of the rule, as new as
// anybody has seen them. Chain replication (van Renesse and Schneider 2004): a shard tells the
// first of its replicas of every update, each tells the next, the last one's word comes back the
// same way; only then does the shard hand the new weights to anybody. So whatever a worker has ever
// been given is with all of the chain, and any one of them will do when nodes are lost
// (coordinator/surviving_state.hpp).
//
// Messages in:  state (who is before us in the chain), ready{copied} (who is behind us), quiesce,
//               collect (coordinator), halt
// Messages out: state (who is behind us), ready{copied} (who is before us), inventory, state
//               (coordinator) Messages an update, per block: one state and one word back, each way
//               of the chain. Bytes: the block and the states of the rule.
//
// A state here: header.version the block's, header.step how many updates its states have seen,
// header.flags the era of the mode; state.wanted the oldest version that somebody may want again.
// No states of the rule: they are as they were.
// Invariants: versions of one block grow within an era; an update that comes twice is answered and
// changes nothing.
// Errors: none, what does not fit is dropped. Threads: as every role.
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
    std::uint16_t mode_epoch = 0;
    std::map<std::uint64_t, kept_version> versions;
  };
  void take(const header& h, const state& s, effects& out);
  void answer(std::uint16_t flags, std::uint64_t version, std::uint32_t block, effects& out) const;
  void send_inventory(const header& h, const quiesce& q, effects& out) const;
  void send_version(const header& h, const collect& c, effects& out) const;

  replica_config config_;
  role_id before_ = no_role, behind_ = no_role;
  std::map<std::uint32_t, copy> blocks_;
  bool quiesced_ = false;
};

}  // namespace troupe
