// The coordinator of one job: grants steps to the loaders (or deals portions of a step), gathers losses, evaluates, checkpoints,
// switches the mode, pauses, and ends the job.
//
// Messages in:  start, report (stages), state, ready{settled} (shards), ready{adopted, joined, portion}, observation (workers),
//               ready{joined} (tester; loaders of placed layers' jobs), command (a person, or the host: handover), peer_down, finished
// Messages out: grant, portion, evaluate, resume_at (loaders), settle, adopt, observe, grant (where they rest) (workers), set_value, collect, adopt, restore_state (shards);
//               collect, restore_state (stages that carry state)
// Events:       step, eval, checkpoint, paused, resumed, set, mode, staleness, refused, done, error
// Stores:       checkpoint, weights, handover
//
// In lockstep modes all workers are granted the same steps, `window` ahead of the last complete one, and evaluation is a boundary:
// training runs up to it, and all workers evaluate. In the other modes a worker is granted steps by its own progress, so nobody waits
// for the slowest here, and the tester evaluates beside training.
//
// States of a boundary (end, checkpoint, mode, handover, pause; in lockstep modes also evaluation): training runs up to one step, the same
// for all workers; there, in this order: evaluation, settling where it is needed, checkpoint, mode, end, handover, pause.
//
// A handover ends this plan of the job: the coordinator collects all blocks, stores them with its own position (handover.hpp) and falls
// silent. The coordinator of the next plan gives the blocks to its shards and goes on at the same step.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "runtime/graph/graph.hpp"
#include "runtime/graph/plan.hpp"
#include "runtime/pipeline/carried.hpp"
#include "runtime/pipeline/finish.hpp"
#include "runtime/pipeline/handover.hpp"
#include "runtime/pipeline/portions.hpp"
#include "runtime/role.hpp"

namespace troupe {

// What the coordinator must know of a mode.
struct mode_facts {
  std::string name = "bsp";
  std::vector<std::pair<std::string, std::string>> options;  // as text, as `adopt` carries them
  bool lockstep = true;
  std::uint32_t portion = 0;  // packets of one; 0: fixed ranges
  bool rests = false;         // its workers are told of boundaries
};

struct coordinator_config {
  std::uint32_t job = 0;
  role_id self{0};
  std::shared_ptr<const model_graph> graph;
  std::shared_ptr<const job_plan> plan;
  finish_conditions finish;
  bool any_worker_ends = false;  // finish.who = "any": the first worker to make its steps ends the job (modes out of lockstep)
  std::uint64_t first_step = 0;
  std::uint64_t last_step = 0;  // train until this step; 0: no limit but the other conditions of `finish`
  std::uint64_t steps_per_epoch = 1;
  std::uint64_t eval_every = 0;    // steps; 0: only at the end
  std::uint32_t eval_packets = 0;  // of one round, over all workers; 0: no test data
  std::int64_t batch = 0;
  std::uint32_t window = 3;
  bool keeps = false;                    // restarted stages, loaders and halves make again what was lost: all losses come
  std::vector<std::string> rule_states;  // names of the rule's state tensors
  dtype type = dtype::f32;               // of parameters
  mode_facts mode;
  // What a person asks for by `mode NAME key=value`: its facts, or nothing and why in `error`.
  std::function<std::optional<mode_facts>(const std::string& name, const std::vector<std::pair<std::string, std::string>>& options,
                                          std::string& error)>
      find_mode;
  std::shared_ptr<handover> before;  // of a job that had another plan before this one
};

class coordinator final : public role {
 public:
  explicit coordinator(coordinator_config c);
  void on(const envelope& e, time_point now, effects& out) override;
  role_status status() const override;

 private:
  using scalars = std::vector<std::pair<std::string, double>>;
  struct packet_reports {
    std::vector<std::pair<std::uint32_t, report>> by_stage;  // first layer of the stage that reported
    bool given_up = false;                                   // its worker was restarted behind it
  };
  struct gathered {
    std::vector<packet_reports> by_packet;
    std::vector<std::uint32_t> left;  // by worker: reports of its packets still to come
    std::uint32_t stages = 0, missing = 0;
  };
  struct collecting {
    std::uint64_t request = 0;
    bool final = false, handover = false;
    std::uint32_t missing = 0;
    std::vector<std::optional<state>> blocks;
    std::vector<std::uint64_t> updates;  // by block: that its rule states have seen
    std::vector<std::pair<std::string, tensor>> weights, rule;
    std::vector<carried_piece> pieces;  // of carried state: their `blocks` follow those of the plan
    std::vector<std::pair<std::string, tensor>> carried;
  };
  // A block for its shard that a job picks out of the whole parameter (and its states).
  struct cut_block {
    header h;
    restore_state s;
    const param_block* block = nullptr;
    tensors whole;
  };
  static constexpr std::uint64_t cut_token = 0;  // collections are counted from 1

  // --- coordinator.cpp: steps, grants, boundaries
  void begin(time_point now, effects& out);
  std::string held_by(const header& h, const std::string& node) const;
  void take_report(const envelope& e, effects& out);
  void take_ready(const header& h, const ready& r, effects& out);
  void take_command(const command& c, effects& out);
  void take_handover_command(const command& c, effects& out);
  void take_mode_command(const std::string& name, std::vector<std::pair<std::string, std::string>> options, effects& out);
  void step_complete(std::uint64_t step, const gathered& g, effects& out);
  void complete_steps(effects& out);
  void joined(std::uint32_t worker, std::uint64_t step, bool again, effects& out);
  void loader_is_back(role_id loader, effects& out);
  void give_up(gathered& g, std::uint32_t worker);
  void give_up_done_portions();
  void deal_again(effects& out);
  void send_portion(std::uint32_t worker, const portion& p, effects& out) const;
  void take_portion_done(std::uint32_t worker, const header& h, effects& out);
  void advance(effects& out);
  bool at_boundary(effects& out);
  bool ends_here() const;
  bool can_evaluate() const { return config_.eval_packets > 0 && (config_.mode.lockstep || config_.plan->tester != no_role); }
  void grant_steps(std::uint64_t boundary, effects& out);
  void tell_boundary(std::uint64_t boundary, effects& out);
  std::uint64_t next_boundary() const;
  // Steps made: in lockstep those that are complete, else the mean over the workers.
  std::uint64_t progress() const;
  void hold();
  gathered expect(std::uint32_t packets, bool train) const;
  gathered& step_of(std::uint64_t step);
  std::uint32_t worker_of_packet(std::uint32_t packet) const;
  header to(role_id r) const;
  std::string mode_text() const;  // "ssp staleness=3"

  // --- coordinator_actions.cpp: what happens at a boundary, and evaluation
  void begin_round(effects& out);
  void begin_round_of_written(effects& out);
  void send_written(effects& out) const;
  void send_round(effects& out) const;
  void send_round_to(role_id loader, effects& out) const;
  void tester_is_back(std::uint32_t incarnation, effects& out);
  void round_complete(const gathered& g, effects& out);
  void begin_settle(effects& out);
  void send_settle(role_id worker, effects& out) const;
  void begin_switch(effects& out);
  header adoption(role_id r) const;
  void switched(effects& out);
  void begin_collect(bool final, effects& out);
  void write(effects& out);
  void take_state(const envelope& e, effects& out);
  void name_pieces(collecting& c) const;
  static void join_pieces(const model_graph& g, const job_plan& plan, collecting& c, device& d);
  task_work join_blocks() const;
  void collected(effects& out);
  void restore(effects& out);
  task_work cut_blocks() const;
  void send_cut(effects& out);
  void hand_over(collecting c, effects& out);
  void begin_observe(effects& out);
  void take_observation(const header& h, const observation& o, effects& out);
  void end(effects& out);
  finish_facts facts(double loss, double accuracy) const;
  scalars mean_of(const gathered& g) const;

  coordinator_config config_;
  bool started_ = false, paused_ = false, ended_ = false;
  bool want_eval_ = false, want_checkpoint_ = false, want_stop_ = false, want_pause_ = false, want_handover_ = false;
  bool stopped_by_person_ = false;
  std::uint64_t completed_ = 0, evaluated_ = 0, rounds_ = 0, requests_ = 0;
  std::vector<std::uint64_t> done_, granted_;  // by worker
  std::vector<std::uint64_t> told_;            // by worker: the boundary it has been told, 0: none
  std::uint64_t words_ = 0;                    // about boundaries
  std::vector<std::uint64_t> joined_at_;       // by worker: reports of earlier steps do not come any more
  std::optional<std::uint64_t> hold_;          // a person asked: no grant beyond this step
  std::map<std::uint64_t, gathered> steps_;
  std::optional<gathered> round_;
  std::uint32_t tester_life_ = 0;                         // incarnation of the tester that we have heard of
  std::shared_ptr<collecting> collect_;                   // shared with the task that joins
  std::shared_ptr<std::vector<cut_block>> cutting_;       // shared with the task that cuts
  std::optional<portion_book> portions_, last_portions_;  // of the step that is dealt, and of the one before
  std::optional<std::uint64_t> lost_portions_of_;         // the step in which a worker was last restarted
  std::vector<std::uint32_t> lives_;                      // by worker: the incarnation that has joined
  std::set<std::uint32_t> evaluate_later_;                // restarted workers that have portions of the step before to do first
  // Settling and switching.
  std::optional<mode_facts> want_mode_;
  std::uint64_t settle_round_ = 0;
  std::optional<std::set<role_id>> settling_, switching_;  // shards that have settled; workers that have adopted
  std::optional<std::uint64_t> settled_at_;
  std::uint32_t era_ = 0;
  std::uint64_t switched_at_ = 0;  // the boundary at which this era began
  std::optional<std::set<role_id>> observing_;
  bool observed_ = false;  // at the end
  std::map<std::string, std::vector<std::uint64_t>> histograms_;
  std::vector<set_value> settings_;
  time_point begun_{}, last_step_at_{}, now_{};
  double accuracy_ = -1;
  // The step whose settled weights accuracy_ is of; none: weights have changed since then, or changed while they were evaluated.
  std::optional<std::uint64_t> judged_, judging_;  // of the last round, and of the one under way
  std::optional<collecting> written_;              // the last collection, kept until it has been evaluated
};

}  // namespace troupe
