// Evaluation that stops nobody (asynchronous modes): on `evaluate` the tester asks the shards for
// their blocks as they are, puts the parameters together and gives them to its own stage, which
// holds the whole model; its loader feeds that stage the round's packets. Blocks that the
// coordinator sends are a round of their own: the weights that a job is about to write, and nobody
// is asked.
//
// Messages in:  evaluate (coordinator), state (shards, coordinator), start, finished
// Messages out: collect (shards of the first server group), layer_weights (the tester's stage),
//               ready{joined} (coordinator: after a restart, to be asked again)
// Invariant: a round's packets all run with the weights of one collection: version = round.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "runtime/model/graph.hpp"
#include "runtime/plan/plan.hpp"
#include "runtime/role.hpp"

namespace troupe {

struct tester_config {
  std::uint32_t job = 0;
  role_id self = no_role;
  std::shared_ptr<const model_graph> graph;
  std::shared_ptr<const job_plan> plan;
  dtype type = dtype::f32;
  std::uint32_t incarnation = 0;  // > 0: this node has been restarted
};

class tester final : public role {
 public:
  explicit tester(tester_config c) : config_(std::move(c)) {}
  void on(const envelope& e, time_point now, effects& out) override;
  role_status status() const override;

 private:
  void take_state(const state& s, effects& out);
  void give(effects& out);
  header to(role_id r) const;

  tester_config config_;
  std::uint64_t round_ = 0, given_ = 0;         // the round we are at; the last whose weights have been handed on
  std::map<std::uint32_t, tensor> blocks_;      // of this round
  std::shared_ptr<std::vector<tensors>> made_;  // by layer, while the task runs
};

}  // namespace troupe
