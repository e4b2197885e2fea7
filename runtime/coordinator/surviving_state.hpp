// What is left of a job's weights when nodes are lost: asks everybody who has blocks, and finds the
// step at which all of them can be had, so that the next plan goes on from there and nothing that
// was kept on disk is needed.
//
// In modes whose weights have versions (leftover::versions) the blocks of a job are at most a few
// versions apart: a block at version v has the gradients of all workers for step v - 1, the lost
// ones' too, and those were computed with weights that all blocks had given. Shards remember that
// many versions (shard_blocks::remember), so the oldest of the newest is one that all of them have.
// It is the state of an undisturbed run at that step, bit for bit. In the others (leftover::newest)
// every block goes on as it is. Of several server groups the first goes on all of whose shards
// live: that is the one that the others synchronise with, or else one of these, without what it had
// not heard of yet.
//
// Knows blocks, versions and who has them; never what is in them, or what becomes of them.
// Invariants: an answer to another question, or of somebody who was not asked, is dropped. Errors:
// in words, why it cannot be.
// Threads: a value.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "runtime/coordinator/mode_facts.hpp"
#include "runtime/messages/message.hpp"
#include "runtime/model/graph.hpp"
#include "runtime/plan/plan.hpp"

namespace troupe {

// Why a job with this plan, in a mode that leaves so much, cannot go on from what is left without
// these nodes; empty: it may.
std::string why_nothing_is_left(const job_plan& p, const model_graph& g, survivor_rule left, const std::set<std::string>& lost);

class surviving_state {
 public:
  explicit surviving_state(std::shared_ptr<const job_plan> p) : plan_(std::move(p)) {}

  // Asks anew: who has blocks, and is not on these nodes.
  void begin(const std::set<std::string>& lost);
  std::uint64_t request() const { return request_; }
  const std::vector<role_id>& asked() const { return asked_; }
  std::size_t missing() const { return asked_.size() - answers_.size(); }
  // True: it was the last one missing.
  bool take(role_id from, const inventory& what);

  struct found {
    std::uint64_t version = 0;  // of all blocks; any_version: each its newest
    std::vector<role_id> from;  // for each shard of the server group that goes on: itself, or who has a copy of its blocks
  };
  // At `completed` or before: the losses of later steps are not all known.
  std::variant<found, std::string> find(survivor_rule left, std::uint64_t completed) const;

 private:
  struct span {
    std::uint64_t least = 0, newest = 0;
  };
  using have = std::map<std::uint64_t, span>;  // by block
  std::vector<role_id> holders(role_id shard) const;
  bool whole(role_id shard, const have& h) const;

  std::shared_ptr<const job_plan> plan_;
  std::uint64_t request_ = 0;
  std::vector<role_id> shards_;  // of the server group that goes on
  std::vector<role_id> asked_;
  std::map<role_id, have> answers_;
};

}  // namespace troupe
