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
#include "runtime/pipeline/block_collector.hpp"
#include "runtime/pipeline/block_cutter.hpp"
#include "runtime/pipeline/evaluation_round.hpp"
#include "runtime/pipeline/finish.hpp"
#include "runtime/pipeline/handover.hpp"
#include "runtime/pipeline/portion_dealer.hpp"
#include "runtime/pipeline/report_sheet.hpp"
#include "runtime/pipeline/staleness_count.hpp"
#include "runtime/pipeline/step_ledger.hpp"
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
  enum class purpose { checkpoint, end, handover };  // of a collection
  static constexpr std::uint64_t cut_token = 0;      // collections are counted from 1

  // --- coordinator.cpp: steps, grants, boundaries
  void begin(time_point now, effects& out);
  std::string held_by(const header& h, const std::string& node) const;
  void take_report(const envelope& e, effects& out);
  void take_ready(const header& h, const ready& r, effects& out);
  void take_command(const command& c, effects& out);
  void take_handover_command(const command& c, effects& out);
  void take_mode_command(const std::string& name, std::vector<std::pair<std::string, std::string>> options, effects& out);
  void step_complete(std::uint64_t step, const report_sheet& reports, effects& out);
  void complete_steps(effects& out);
  void joined(std::uint32_t worker, std::uint64_t step, bool again, effects& out);
  void loader_is_back(role_id loader, effects& out);
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
  std::uint64_t completed() const { return ledger_.completed(); }
  header to(role_id r) const;
  std::string mode_text() const;  // "ssp staleness=3"

  // --- coordinator_actions.cpp: what happens at a boundary, and evaluation
  void begin_round(std::optional<std::uint64_t> of, effects& out);
  void send_written(effects& out) const;
  void send_round(effects& out) const;
  void send_round_to(role_id loader, effects& out) const;
  void tester_lives(std::uint32_t incarnation, effects& out);
  void round_complete(const report_sheet& reports, effects& out);
  void begin_settle(effects& out);
  void send_settle(role_id worker, effects& out) const;
  void begin_switch(effects& out);
  header adoption(role_id r) const;
  void switched(effects& out);
  void begin_collect(purpose why, effects& out);
  void write(effects& out);
  void take_state(const envelope& e, effects& out);
  void collected(effects& out);
  void restore(effects& out);
  void send_restored(std::vector<restored_block> list, effects& out) const;
  void send_cut(effects& out);
  void hand_over(collection c, effects& out);
  void begin_observe(effects& out);
  void take_observation(const header& h, const observation& o, effects& out);
  void end(effects& out);
  finish_facts facts(std::uint64_t steps, double loss, double accuracy) const;

  coordinator_config config_;
  step_ledger ledger_;
  block_collector collector_;
  purpose collecting_ = purpose::checkpoint;
  std::optional<block_cutter> cutter_;
  portion_dealer dealer_;
  evaluation_round evaluation_;
  staleness_count staleness_;
  bool started_ = false, paused_ = false, ended_ = false;
  bool want_eval_ = false, want_checkpoint_ = false, want_stop_ = false, want_pause_ = false, want_handover_ = false;
  bool stopped_by_person_ = false;
  std::vector<std::uint64_t> told_;    // by worker: the boundary it has been told, 0: none
  std::uint64_t words_ = 0;            // about boundaries
  std::optional<std::uint64_t> hold_;  // a person asked: no grant beyond this step
  // Settling and switching.
  std::optional<mode_facts> want_mode_;
  std::uint64_t settle_round_ = 0;
  std::optional<std::set<role_id>> settling_, switching_;  // shards that have settled; workers that have adopted
  std::optional<std::uint64_t> settled_at_;
  std::uint32_t era_ = 0;
  std::uint64_t switched_at_ = 0;  // the boundary at which this era began
  std::vector<set_value> settings_;
  time_point begun_{}, last_step_at_{}, now_{};
  std::optional<collection> written_;  // the last collection, kept until it has been evaluated
};

}  // namespace troupe
