// The coordinator of one job: grants steps to the loaders (or deals work units of a step), collects
// losses, evaluates, checkpoints, switches the mode, pauses, and ends the job.
//
// Messages in:  start, report (stages), state, inventory, ready{flushed} (shards), ready{adopted,
//               work_unit}, observation, step_time (workers), nonfinite_report (shards, workers),
//               histogram (shards), layer_weights (tester), command (users; the host: handover,
//               surviving_state), peer_down, finished
// Messages out: grant, work_unit, evaluate (loaders), evaluate, state (tester), flush, adopt,
//               observe, set_value, grant (workers of modes with mode_facts::rests), start,
//               set_value, collect, adopt, restore_state, want_histograms (shards); collect,
//               restore_state (stages that carry state); collect (tester); quiesce, collect (shards
//               and replicas, after node failures)
// Events:       begins, step, balance, alert, eval, checkpoint, paused, resumed, set, mode,
//               staleness, best, histogram, refused, done, error
// Stores:       checkpoint, weights, best, handover
//
// It passes each message to one of these objects and turns their results into effects:
//
//   step_ledger       granted, reported and complete steps
//   work_unit_dealer  the work units of a step
//   evaluation_round  the round in progress, and the weights that the last round evaluated
//   boundary          requested actions, and which is next
//   block_collector   collects all blocks and joins them by parameter name
//   block_cutter      the reverse: cuts parameters into blocks for the next plan
//   staleness_count   answers to `observe`
//   rest_notices      which workers were notified where steps end
//   surviving_state   which shards and replicas have which blocks after node failures
//   skipped_steps     steps that were skipped
//   best_weights      the best evaluation, and whether its weights are stored
//   histogram_sheets  adds the histograms of a parameter's blocks
//   share_tuner       the packets that each worker should have
//
// In lockstep modes all workers are granted the same steps, `window` ahead of the last complete
// one, and evaluation is a boundary: training runs up to it, and all workers evaluate. In the other
// modes a worker is granted steps by its own progress, independently of slower workers, and the
// tester evaluates in parallel with training.
//
// A handover ends this plan of the job: the coordinator collects all blocks, stores them with its
// own state (handover.hpp) and ignores further messages. The command `surviving_state` (from the
// host, with the failed nodes) is an immediate handover of the surviving blocks
// (surviving_state.hpp). The coordinator of the next plan sends the blocks to its shards and
// continues from the same step.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/coordinator/best_weights.hpp"
#include "runtime/coordinator/block_collector.hpp"
#include "runtime/coordinator/block_cutter.hpp"
#include "runtime/coordinator/boundary.hpp"
#include "runtime/coordinator/evaluation_round.hpp"
#include "runtime/coordinator/finish.hpp"
#include "runtime/coordinator/handover.hpp"
#include "runtime/coordinator/histogram_sheets.hpp"
#include "runtime/coordinator/mode_facts.hpp"
#include "runtime/coordinator/rate_plateau.hpp"
#include "runtime/coordinator/recent_rate.hpp"
#include "runtime/coordinator/report_sheet.hpp"
#include "runtime/coordinator/rest_notices.hpp"
#include "runtime/coordinator/share_tuner.hpp"
#include "runtime/coordinator/skipped_steps.hpp"
#include "runtime/coordinator/staleness_count.hpp"
#include "runtime/coordinator/step_ledger.hpp"
#include "runtime/coordinator/surviving_state.hpp"
#include "runtime/coordinator/work_unit_dealer.hpp"
#include "runtime/model/graph.hpp"
#include "runtime/plan/plan.hpp"
#include "runtime/role.hpp"

namespace troupe {

// The interval of automatic checkpoints. A plain value.
struct checkpoint_interval {
  std::uint64_t steps = 0;  // 0: not by steps
  double seconds = 0;       // 0: not by time
  // A job with an interval has a checkpoint of its last step too, so that it can be extended.
  bool any() const { return steps > 0 || seconds > 0; }
};

struct schedule;  // ops/schedule.hpp

// size: constants that the role gets once and distributes to its values
struct coordinator_config {
  std::uint32_t job = 0;
  role_id self{0};
  std::shared_ptr<const model_graph> graph;
  std::shared_ptr<const job_plan> plan;
  finish_conditions finish;
  std::optional<rate_plateau> plateau;  // lowers the rate; none: another schedule
  bool any_worker_ends = false;         // finish.who = "any": the first worker to finish its steps ends the job (not in lockstep)
  std::uint64_t first_step = 0;
  std::uint64_t last_step = 0;  // train until this step; 0: limited only by the other conditions of `finish`
  std::uint64_t steps_per_epoch = 1;
  std::uint64_t eval_every = 0;    // steps; 0: only at the end
  std::uint32_t eval_packets = 0;  // per round, over all workers; 0: no test data
  checkpoint_interval checkpoints;
  bool keeps_best = false;             // store the weights of the best evaluation
  std::uint64_t histograms_every = 0;  // steps; 0: only on request
  std::uint64_t max_skipped = 0;       // consecutive steps that may be skipped because their gradient is not finite
  std::int64_t batch = 0;
  std::uint32_t window = 3;
  std::vector<std::string> rule_states;  // names of the rule's state tensors; with an average, it is the last
  // What an average of the weights (ops/rules/average.hpp) is used for. Without one: the default.
  struct average_use {
    bool evaluated = false;         // evaluations use the average
    bool weights_evaluated = true;  // evaluations use the weights; with both, they do so first
    bool written = false;           // the final weights are the average
  };
  average_use average;
  double base_lr = 0;                    // of the job file; events "step" have the rate that `rate` makes of it
  std::shared_ptr<const schedule> rate;  // null: they have none
  std::string if_diverged;               // end of the errors about numbers that are not finite: what to change
  dtype type = dtype::f32;               // of parameters
  mode_facts mode;                       // the initial mode
  std::string reducer;                   // [train.exchange] reducer, for messages
  // The facts of the mode that `mode NAME key=value` requests. An error if the job cannot switch to
  // it.
  std::function<expected<mode_facts>(const std::string& name, const std::vector<std::pair<std::string, std::string>>& options)>
      find_mode;
  std::shared_ptr<handover> before;  // the state that the job continues from or begins with; null: initial fillers
};

// size: one member per object that it routes to; their logic is in their own files
class coordinator final : public role {
 public:
  explicit coordinator(coordinator_config c);
  void on(const envelope& e, time_point now, effects& out) override;
  role_status status() const override;

 private:
  // Not used by collections, which count from 1.
  static constexpr std::uint64_t cut_token = 0, best_token = ~0ull;

  // --- coordinator.cpp: steps and grants, and the routing of messages
  void begin(effects& out);
  void take_report(const envelope& e, effects& out);
  void complete_steps(effects& out);
  void step_complete(std::uint64_t steps, double loss, effects& out);
  double lr_of(std::uint64_t step) const;
  double base_lr_of(std::uint64_t step) const;  // before the schedule: of the job file, or set
  void take_nonfinite_report(const header& h, const nonfinite_report& f, effects& out);
  void take_step_time(const header& h, const step_time& t, effects& out);
  void take_work_unit_done(std::uint32_t worker, std::uint64_t step, const ready& r);
  void advance(effects& out);
  void grant_steps(std::uint64_t until, effects& out);
  void tell_boundary(std::uint64_t until, std::vector<std::uint32_t> workers, effects& out);
  std::vector<std::uint32_t> every_worker() const;  // with a loader
  boundary::facts standing() const;
  std::uint64_t completed() const { return ledger_.completed(); }
  // Finished steps: in lockstep the complete ones, otherwise the mean over the workers.
  std::uint64_t progress() const { return boundary_.lockstep() ? completed() : ledger_.mean_done(); }
  finish_facts known(std::uint64_t steps, double loss, double accuracy) const;
  header to(role_id r) const;

  // --- coordinator_messages.cpp: commands of users and the host, and ready roles
  void take_command(const command& c, effects& out);
  void take_pause_command(command_id id, effects& out);
  void take_resume_command(command_id id, effects& out);
  void take_eval_command(command_id id, effects& out);
  void refuse(std::string why, effects& out, std::vector<command_id> answers = {}) const;
  void find_unchanged(command_id id, effects& out) const;
  void take_handover_command(const handover_command& c, effects& out);
  void refuse_handover(std::string why, effects& out) const;
  void take_mode_command(const mode_choice& m, command_id id, effects& out);
  void take_surviving_state_command(const surviving_state_command& c, effects& out);
  bool lives(std::uint32_t worker) const;
  void take_setting(const set_command& s, command_id id, effects& out);
  void take_option(const set_option_command& s, command_id id, effects& out);
  void send_setting(const set_value& s, effects& out) const;
  std::uint64_t hold() const { return std::max(ledger_.max_granted(), completed()); }
  void take_ready(const header& h, const ready& r, effects& out);
  std::string held_by(const std::string& node) const;

  // --- coordinator_values.cpp: best weights and histograms
  void rate_round(const verdict& v, effects& out);
  bool evaluates_average() const { return config_.average.evaluated && (of_weights_ || !config_.average.weights_evaluated); }
  void store_best(named_tensors named, const std::string& not_finite, effects& out);
  void take_evaluated(const header& h, const layer_weights& w, effects& out);
  void evaluated_checked(effects& out);
  void request_next_histograms(effects& out);
  void request_histograms(std::uint64_t step, bool now, effects& out);
  void request_due_histograms(effects& out);
  void repeat_histograms_request(effects& out);
  void send_to_masters(header h, const want_histograms& w, effects& out) const;
  void take_histogram(const header& h, const histogram& got, effects& out);

  // --- coordinator_actions.cpp: actions at a boundary, and evaluation
  void begin_round(effects& out);
  bool first_of_both(verdict& v, effects& out);
  void send_written(effects& out) const;
  void send_round(effects& out) const;
  void send_round_to(role_id loader, effects& out) const;
  void round_complete(const report_sheet& reports, effects& out);
  void lower_rate(const verdict& v, effects& out);
  void send_flush(role_id worker, effects& out) const;
  void begin_switch(effects& out);
  void send_adopt(role_id r, effects& out) const;
  void switched(effects& out);
  void begin_observe(effects& out);
  void begin_collect(effects& out);
  // The collection at the end of the job is a checkpoint too.
  bool keeps_last() const { return boundary_.stopped() || config_.checkpoints.any(); }
  void take_state(const envelope& e, effects& out);
  void collected(effects& out);
  void write(effects& out);
  handover handover_now(const collection& c) const;  // without the tensors
  void hand_over(collection c, effects& out);
  bool answers_quiesced(const envelope& e, effects& out);
  void take_inventory(const envelope& e, effects& out);
  void surviving_state_collected(effects& out);
  void restore_blocks(effects& out);
  void send_restored(std::vector<restored_block> list, effects& out) const;
  void end(effects& out);

  // What the grants of all workers depend on.
  struct grants_basis {
    std::uint64_t until = 0;
    bool lockstep = false;
    std::uint64_t completed = 0;  // in lockstep
    bool operator==(const grants_basis&) const = default;
  };

  struct moments {
    time_point begun{}, last_step{}, last_checkpoint{}, now{};
    recent_rate rate;
  };

  coordinator_config config_;
  bool started_ = false, ended_ = false;
  moments time_;
  step_ledger ledger_;
  work_unit_dealer dealer_;
  evaluation_round evaluation_;
  std::optional<verdict> of_weights_;  // of a round with the weights that one with their average follows
  boundary boundary_;
  grants_basis grants_basis_;  // at the last grants
  rest_notices notices_;
  staleness_count staleness_;
  skipped_steps skipped_;
  share_tuner tuner_;
  best_weights best_;
  struct fetched_weights {
    named_tensors named;
    std::string not_finite;
  };
  std::shared_ptr<fetched_weights> fetched_;  // of the tester, while a task checks them
  histogram_sheets histograms_;
  block_collector collector_;
  std::optional<collection> written_;  // the final weights, kept until they are evaluated and written
  struct what_is_left {
    surviving_state all;
    std::set<std::string> lost;
    std::optional<std::uint64_t> step;  // first step of the next plan; none: inventories are missing
  };
  std::optional<what_is_left> left_;    // set after node failures: recovery only, no training
  std::optional<block_cutter> cutter_;  // of a job that continues from another plan
  std::vector<set_value> settings_;
  // Commands without an outcome yet, by the action that is their outcome.
  struct open_commands {
    std::vector<command_id> pause, checkpoint, evaluation, mode, staleness, histograms;
    std::vector<command_id> collecting, evaluating;  // of the checkpoint and the round in progress
    static void add(std::vector<command_id>& list, command_id id) {
      if (id != 0) list.push_back(id);
    }
    static std::vector<command_id> take(std::vector<command_id>& list) { return std::exchange(list, {}); }
  } open_;
};

}  // namespace troupe
