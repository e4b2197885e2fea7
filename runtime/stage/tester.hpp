// Evaluates in parallel with training (asynchronous modes), and averages of the weights. On
// `evaluate` the tester collects the current blocks from the shards, assembles the parameters and
// sends them to its stage, which hosts the whole model; its loader sends the round's packets to
// that stage. Blocks that the coordinator sends (the weights that a job is about to write) also
// begin a round, without a collection.
//
// Messages in:  evaluate, collect (coordinator), state (shards, coordinator), finished
// Messages out: collect (shards of the first server group), layer_weights (the tester's stage; the
//               coordinator, which collects the weights of the best evaluation)
// Invariant: all packets of a round run with the weights of one collection: version = round.
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
};

class tester final : public role {
 public:
  explicit tester(tester_config c) : config_(std::move(c)) {}
  void on(const envelope& e, time_point now, effects& out) override;
  role_status status() const override;

 private:
  void begin(std::uint64_t round, bool average);
  void take_state(const state& s, effects& out);
  void give(effects& out);
  header to(role_id r) const;

  tester_config config_;
  bool average_ = false;                        // the current round uses the average of the weights
  std::uint64_t round_ = 0, given_ = 0;         // the current round; the last round whose weights have been sent
  std::map<std::uint32_t, tensor> blocks_;      // of the current round
  std::vector<layer_weights> evaluated_;        // of the last round whose weights have been sent: the tensors of the stage
  std::shared_ptr<std::vector<tensors>> made_;  // by layer, while the task runs
};

}  // namespace troupe
