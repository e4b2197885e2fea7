// The surviving weights of a job after node failures: requests inventories from all shards and
// replicas, and finds the step at which every block is available. The next plan continues from that
// step without a checkpoint.
//
// In modes whose weights have versions (survivor_rule::versions) the blocks of a job are at most a
// few versions apart: a block at version v includes the gradients of all workers for step v - 1,
// also of lost ones, and these were computed with weights of all blocks. Shards keep that many
// versions (shard_blocks::remember), so the smallest newest version of a block exists for all
// blocks. It is the state of an undisturbed run at that step, bit for bit. In the other modes
// (survivor_rule::newest) every block continues as it is. With several server groups, the first one
// whose blocks are all available continues: the master of the others, or one of these, without the
// updates that it had not received.
//
// It knows blocks, their versions and holders, but not their contents.
// Invariants: answers to another request, or from roles that were not asked, are dropped. Errors: a
// message with the reason.
// Threads: a value.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/coordinator/mode_facts.hpp"
#include "runtime/messages/message.hpp"
#include "runtime/model/graph.hpp"
#include "runtime/plan/plan.hpp"

namespace troupe {

// An error if a job with this plan and this rule cannot continue from surviving state after the
// loss of these nodes.
expected<void> check_survivors(const job_plan& p, const model_graph& g, survivor_rule left, const std::set<std::string>& lost);

class surviving_state {
 public:
  explicit surviving_state(std::shared_ptr<const job_plan> p) : plan_(std::move(p)) {}

  // Begins a request to all roles that have blocks and are not on the `lost` nodes.
  void begin(const std::set<std::string>& lost);
  std::uint64_t request() const { return request_; }
  const std::vector<role_id>& asked() const { return asked_; }
  std::size_t missing() const { return asked_.size() - answers_.size(); }
  // Returns true if this was the last inventory missing.
  bool take(role_id from, const inventory& what);

  struct found {
    std::uint64_t version = 0;  // of all blocks; any_version: the newest of each block
    std::vector<role_id> from;  // for each shard of the server group that continues: the shard or a replica of it
  };
  // Finds the version to continue from, at most `completed` (losses of later steps are incomplete),
  // or an error if there is none.
  expected<found> find(survivor_rule left, std::uint64_t completed) const;

 private:
  struct span {
    std::uint64_t least = 0, newest = 0;
  };
  using have = std::map<std::uint64_t, span>;  // by block
  std::vector<role_id> holders(role_id shard) const;
  bool whole(role_id shard, const have& h) const;

  std::shared_ptr<const job_plan> plan_;
  std::uint64_t request_ = 0;
  std::vector<role_id> shards_;  // of the server group that continues
  std::vector<role_id> asked_;
  std::map<role_id, have> answers_;
};

}  // namespace troupe
