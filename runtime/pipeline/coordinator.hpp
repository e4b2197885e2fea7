// The coordinator of one job: grants steps to the loaders, gathers losses, evaluates, checkpoints, pauses, and ends the job.
//
// Messages in:  start, report (stages), state (shards), command (a person), peer_down, finished
// Messages out: grant, evaluate (loaders), set_value, collect (shards)
// Events:       step, eval, checkpoint, paused, resumed, set, done, error;  stores: checkpoint, weights
//
// States of a boundary: training runs up to `next_boundary`; there, in this order: evaluation, checkpoint, end, pause. Steps are
// granted `window` ahead of the last complete one, so the coordinator is never on the critical path and a person's word takes
// effect within `window` steps, at one and the same step everywhere.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/graph/graph.hpp"
#include "runtime/graph/plan.hpp"
#include "runtime/pipeline/finish.hpp"
#include "runtime/role.hpp"

namespace troupe {

struct coordinator_config {
  std::uint32_t job = 0;
  role_id self{0};
  std::shared_ptr<const model_graph> graph;
  std::shared_ptr<const job_plan> plan;
  finish_conditions finish;
  std::uint64_t first_step = 0;
  std::uint64_t last_step = 0;  // train until this step; 0: no limit but the other conditions of `finish`
  std::uint64_t steps_per_epoch = 1;
  std::uint64_t eval_every = 0;    // steps; 0: only at the end
  std::uint32_t eval_packets = 0;  // of one round, over all workers; 0: no test data
  std::int64_t batch = 0;
  std::uint32_t window = 3;
  std::vector<std::string> rule_states;  // names of the rule's state tensors
};

class coordinator final : public role {
 public:
  explicit coordinator(coordinator_config c);
  void on(const envelope& e, time_point now, effects& out) override;
  role_status status() const override;

 private:
  using scalars = std::vector<std::pair<std::string, double>>;
  struct gathered {
    std::vector<std::vector<report>> by_packet;
    std::uint32_t missing = 0;
  };
  struct collecting {
    std::uint64_t request = 0;
    bool final = false;
    std::uint32_t missing = 0;
    std::vector<std::optional<state>> blocks;
    std::vector<std::pair<std::string, tensor>> weights, rule;
  };

  void take_report(const envelope& e, effects& out);
  void take_state(const envelope& e, effects& out);
  void take_command(const command& c, effects& out);
  void step_complete(std::uint64_t step, const gathered& g, effects& out);
  void round_complete(const gathered& g, effects& out);
  void advance(effects& out);
  std::uint64_t next_boundary() const;
  void begin_round(effects& out);
  void begin_collect(bool final, effects& out);
  void collected(effects& out);
  void end(effects& out);
  finish_facts facts(double loss, double accuracy) const;
  scalars mean_of(const gathered& g) const;
  gathered expect(std::uint32_t packets, bool train) const;
  header to(role_id r) const;

  coordinator_config config_;
  bool started_ = false, paused_ = false, ended_ = false;
  bool want_eval_ = false, want_checkpoint_ = false, want_stop_ = false, want_pause_ = false;
  bool stopped_by_person_ = false;
  std::uint64_t completed_ = 0, granted_ = 0, evaluated_ = 0, rounds_ = 0, requests_ = 0;
  std::optional<std::uint64_t> hold_;  // a person asked: no grant beyond this step
  std::map<std::uint64_t, gathered> steps_;
  std::optional<gathered> round_;
  std::optional<collecting> collect_;
  time_point begun_{}, last_step_at_{}, now_{};
  double accuracy_ = -1;
};

}  // namespace troupe
