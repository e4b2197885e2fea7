#include "runtime/coordinator/coordinator.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "ops/schedule.hpp"
#include "runtime/plan/plan_check.hpp"

namespace troupe {
namespace {

evaluation_round::history history_of(const coordinator_config& c) {
  if (c.before) return {c.before->evaluated, c.before->rounds, c.before->accuracy};
  return {c.first_step, 0, -1};
}

boundary::rules rules_of(const coordinator_config& c) {
  boundary::rules r;
  r.first_step = c.first_step;
  r.last_step = c.last_step;
  r.eval_every = c.eval_every;
  r.checkpoint_every = c.checkpoints.steps;
  r.has_tests = c.eval_packets > 0;
  r.has_tester = c.plan->tester != no_role;
  r.any_worker_ends = c.any_worker_ends;
  r.drains = c.plan->rule == weight_rule::drain;
  r.owes = c.before && c.first_step > 0 && c.before->evaluated < c.first_step;
  return r;
}

}  // namespace

coordinator::coordinator(coordinator_config c)
    : config_(std::move(c)),
      ledger_(*config_.plan, reporting_stages(*config_.graph, *config_.plan, true, false), config_.first_step),
      dealer_(config_.plan->packets, config_.mode.work_unit, static_cast<std::uint32_t>(config_.plan->workers.size())),
      evaluation_(history_of(config_)),
      boundary_(rules_of(config_), config_.mode),
      notices_(ledger_.workers()),
      staleness_(config_.plan->workers),
      tuner_(config_.plan->ranges),
      best_(config_.keeps_best, config_.before ? config_.before->best : std::nullopt),
      histograms_(config_.graph, config_.plan, config_.histograms_every, config_.first_step),
      collector_(config_.graph, config_.plan, config_.rule_states, config_.type) {
  if (!config_.before) return;
  settings_ = config_.before->settings;
  if (config_.before->paused) boundary_.was_paused(hold());
  if (config_.before->keep) boundary_.want_checkpoint(hold());
}

header coordinator::to(role_id r) const {
  header h;
  h.job = config_.job;
  h.src = config_.self;
  h.dst = r;
  return h;
}

void coordinator::on(const envelope& e, time_point now, effects& out) {
  time_.now = now;
  if (answers_quiesced(e, out)) return;
  if (ended_) return drop(drop_reason::outdated);
  std::visit(overloaded{
                 [&](const start&) { begin(out); },
                 [&](const report&) { take_report(e, out); },
                 [&](const state&) { take_state(e, out); },
                 [&](const inventory&) { drop(drop_reason::outdated); },
                 [&](const ready& r) { take_ready(e.h, r, out); },
                 [&](const observation& o) {
                   if (!staleness_.waits_for(e.h.src)) return drop(drop_reason::unrequested);
                   if (staleness_.take(e.h.src, o)) {
                     out.event(completed(), staleness_event{staleness_.sums(*config_.graph)}, open_commands::take(open_.staleness));
                   }
                 },
                 [&](const step_time& t) { take_step_time(e.h, t, out); },
                 [&](const nonfinite_report& f) { take_nonfinite_report(e.h, f, out); },
                 [&](const command& c) { take_command(c, out); },
                 [&](const layer_weights& w) { take_evaluated(e.h, w, out); },
                 [&](const histogram& h) { take_histogram(e.h, h, out); },
                 [&](const finished& f) {
                   if (f.token == best_token) return evaluated_checked(out);
                   f.token == cut_token ? send_restored(cutter_->picked(), out) : collected(out);
                 },
                 [&](const peer_down& p) {
                   ended_ = true;
                   out.event(completed(), error_event{"node " + p.node + " is lost: " + p.reason + held_by(p.node)});
                 },
                 [&](const auto&) { drop(drop_reason::unexpected); },
             },
             e.body);
  advance(out);
}

void coordinator::begin(effects& out) {
  if (started_) return drop(drop_reason::repeated);
  started_ = true;
  time_.begun = time_.last_step = time_.last_checkpoint = time_.now;
  if (const auto faults = check_plan(*config_.plan, *config_.graph); !faults.empty()) {
    ended_ = true;
    return out.event(completed(), error_event{"the plan is refused: " + faults.front().text});
  }
  if (config_.before) {
    for (auto& n : std::exchange(config_.before->notes, {})) out.event(completed(), begins_event{std::move(n)});
    restore_blocks(out);
    if (boundary_.paused()) out.event(completed(), paused_event{});  // the host may not know it: it may have been restarted
  }
  if (config_.histograms_every > 0) send_to_masters(to(no_role), want_histograms{config_.histograms_every, false}, out);
  for (auto s : config_.plan->shards) out.send({to(s), start{}});
}

// --- reports

void coordinator::take_report(const envelope& e, effects& out) {
  const bool train = e.h.phase == static_cast<std::uint8_t>(phase::train);
  const bool of_round = !train && evaluation_.is(e.h.step);
  if (index_of(e.h.src) >= config_.plan->roles.size()) return drop(drop_reason::misaddressed);
  const auto& stage = (*config_.plan)[e.h.src];
  if (!reports_in(*config_.graph, stage, train)) return drop(drop_reason::misaddressed);
  const auto& notified = std::get<report>(e.body);
  if (!well_formed(notified)) return drop(drop_reason::malformed);
  if (train) {
    // valid == 0: a void packet. With work units, another worker reports the packet.
    if (written_ || (dealer_.deals() && notified.valid == 0)) return drop(drop_reason::outdated);
    if (!ledger_.take(e.h.step, e.h.packet, stage.layers.front(), notified)) return drop(drop_reason::outdated);
    return complete_steps(out);
  }
  if (!of_round) return drop(drop_reason::outdated);
  const auto missing = evaluation_.missing();
  if (const auto all = evaluation_.take(e.h.packet, stage.layers.front(), notified))
    round_complete(*all, out);
  else if (evaluation_.missing() == missing)
    drop(drop_reason::repeated);
}

void coordinator::complete_steps(effects& out) {
  for (const auto& s : ledger_.take_complete())
    step_complete(s.step + 1, loss_of(*config_.graph, s.reports.means(*config_.graph)), out);
}

void coordinator::step_complete(std::uint64_t steps, double loss, effects& out) {
  if (config_.before && steps <= config_.before->notified) return void(time_.last_step = time_.now);
  const double took = seconds_of(time_.now - time_.last_step);
  time_.last_step = time_.now;
  if (config_.checkpoints.seconds > 0 && seconds_of(time_.now - time_.last_checkpoint) >= config_.checkpoints.seconds) {
    time_.last_checkpoint = time_.now;  // do not request another one before it is made
    boundary_.want_checkpoint(hold());
  }
  out.event(steps, step_event{loss, config_.rate ? std::optional(lr_of(steps - 1)) : std::nullopt,
                              time_.rate.add(static_cast<double>(config_.batch), took), took, skipped_.total()});
  // If steps may be skipped, only gradients are checked: a loss can be infinite where its gradient
  // is finite, and a skipped step has no loss.
  if (!std::isfinite(loss) && config_.max_skipped == 0) {
    out.event(steps, error_event{"the loss is not finite at step " + std::to_string(steps) + config_.if_diverged});
    ended_ = true;
  }
  if (after_step(config_.finish, known(steps, loss, -1))) boundary_.want_end();
}

// The rate with which the gradient of this step is applied.
double coordinator::lr_of(std::uint64_t step) const { return config_.rate->lr(base_lr_of(step), step); }

double coordinator::base_lr_of(std::uint64_t step) const {
  auto base = config_.base_lr;
  for (const auto& s : settings_)
    if (s.key == "train.dynamics.lr" && s.from <= step) base = s.value;
  return base;
}

void coordinator::take_step_time(const header& h, const step_time& t, effects& out) {
  const auto& plan = *config_.plan;
  if (!plan.balances) return drop(drop_reason::unexpected);
  if (!boundary_.lockstep()) return;  // workers that have switched to such a mode go on reporting
  if (index_of(h.src) >= plan.roles.size() || plan[h.src].kind != role_kind::worker) return drop(drop_reason::misaddressed);
  const auto worker = plan[h.src].worker;
  if (worker >= plan.ranges.size()) return drop(drop_reason::misaddressed);
  if (h.step >= ledger_.max_granted() || !std::isfinite(t.seconds) || t.seconds < 0) return drop(drop_reason::malformed);
  if (!tuner_.take(worker, h.step, t.seconds)) return drop(drop_reason::repeated);
  const auto shares = tuner_.proposal();
  if (!shares) return;
  out.event(completed(), balance_event{*shares});
}

// header.step is the gradient's step. Every shard with a part of it reports it; the step counts
// once.
void coordinator::take_nonfinite_report(const header& h, const nonfinite_report& f, effects& out) {
  if (index_of(h.src) >= config_.plan->roles.size() || f.bad.empty() || f.bad.front() >= config_.plan->blocks.size())
    return drop(drop_reason::misaddressed);
  const bool worker = !(*config_.plan)[h.src].does().owns_parameters;
  if (worker && (*config_.plan)[h.src].does().adds == role_sums::none) return drop(drop_reason::misaddressed);
  const auto row = skipped_.note({worker, f.group}, h.step);
  if (!row) return drop(drop_reason::repeated);
  const auto& p = config_.graph->params[config_.plan->blocks[f.bad.front()].param];
  auto text = "the gradient of layer '" + config_.graph->layers[p.layer].name + "', parameter '" + p.spec.name +
              "', is not finite at step " + std::to_string(h.step + 1);
  if (*row > config_.max_skipped) {
    ended_ = true;
    text += config_.max_skipped == 0 ? ": the job ends because [train] max_skipped is 0"
                                     : ": " + std::to_string(*row) + " such steps in a row, [train] max_skipped is " +
                                           std::to_string(config_.max_skipped);
    return out.event(h.step + 1, error_event{text + config_.if_diverged});
  }
  text += worker ? ": " + (*config_.plan)[h.src].name + " skips the step" : ": the step is skipped";
  text += " (" + std::to_string(*row) + " in a row, at most " + std::to_string(config_.max_skipped) + ")";
  out.event(h.step + 1, step_skipped_event{skipped_.total(), std::move(text)});
}

finish_facts coordinator::known(std::uint64_t steps, double loss, double accuracy) const {
  const auto epochs = static_cast<double>(steps) / static_cast<double>(config_.steps_per_epoch);
  return {steps, epochs, seconds_of(time_.now - time_.begun), loss, accuracy};
}

// --- work units

void coordinator::take_work_unit_done(std::uint32_t worker, std::uint64_t step, const ready& r) {
  if (r.count > 0) {
    if (!dealer_.done(worker, step, r.first)) drop(drop_reason::outdated);
    return;
  }
  dealer_.over(step);
}

// --- grants and boundaries

boundary::facts coordinator::standing() const {
  boundary::facts f;
  f.completed = completed();
  f.granted = ledger_.max_granted();
  f.max_done = ledger_.max_done();
  f.evaluating = evaluation_.under_way() || best_.fetching();
  f.evaluated = evaluation_.made(f.completed);
  f.weights_evaluated = evaluation_.weights_evaluated(f.completed);
  if (config_.eval_every > 0) {
    f.evaluation_due = evaluation_.due(progress(), config_.eval_every);
    f.next_evaluation = evaluation_.next(f.completed, config_.eval_every);
  }
  f.observing = staleness_.asking();
  f.observed = staleness_.observed();
  return f;
}

// Grants the steps that may run; at a boundary performs the actions that are due, one at a time.
void coordinator::advance(effects& out) {
  if (started_ && !ended_) request_due_histograms(out);
  while (started_ && !ended_) {
    const auto f = standing();
    switch (boundary_.next(f)) {
      case boundary::todo::wait: return;
      case boundary::todo::train: return grant_steps(boundary_.end(f), out);
      case boundary::todo::flush:
        if (!boundary_.lockstep()) evaluation_.weights_change();  // workers push what they hold, so the shards' weights change
        for (auto w : config_.plan->workers) send_flush(w, out);
        break;
      case boundary::todo::evaluate: begin_round(out); break;
      case boundary::todo::observe: begin_observe(out); break;
      case boundary::todo::collect: begin_collect(out); break;
      case boundary::todo::adopt: begin_switch(out); break;
      case boundary::todo::say_paused: out.event(completed(), paused_event{}, open_commands::take(open_.pause)); break;
      case boundary::todo::leave:
        if (boundary_.due(completed())) evaluation_.skip_to(completed());
        if (boundary_.end(standing()) <= completed()) return;
        break;
      case boundary::todo::write_weights: return write(out);
    }
  }
}

void coordinator::grant_steps(std::uint64_t until, effects& out) {
  if (boundary_.paused()) return;
  if (dealer_.deals()) {
    if (const auto next = dealer_.next_step(completed()); next && *next < until) {
      dealer_.open(*next);
      for (std::uint32_t w = 0; w < ledger_.workers(); ++w) ledger_.grant(w, *next + 1);
    }
    for (const auto& d : dealer_.deal()) out.send({to(config_.plan->loaders[d.worker]), d.what});
    return;
  }
  // A worker's grant depends on these and, out of lockstep, on the steps that it has done.
  const bool lockstep = boundary_.lockstep();
  const grants_basis basis{until, lockstep, lockstep ? completed() : 0};
  const bool all = std::exchange(grants_basis_, basis) != basis;
  auto workers = ledger_.take_risen();
  if (all)
    workers = every_worker();
  else if (lockstep)
    workers.clear();
  for (auto w : workers) {
    const auto ahead = (lockstep ? completed() : ledger_.done(w)) + config_.window;
    if (!ledger_.grant(w, std::min(ahead, until))) continue;
    out.send({to(config_.plan->loaders[w]), grant{ledger_.granted(w)}});
  }
  tell_boundary(until, std::move(workers), out);
}

std::vector<std::uint32_t> coordinator::every_worker() const {
  std::vector<std::uint32_t> all(ledger_.workers());
  std::iota(all.begin(), all.end(), 0u);
  return all;
}

// Notifies the workers of modes with mode_facts::rests where steps end for now. If the first worker
// to finish ends the job, the last step is not announced: a worker that rests sends its weights
// away, and they must not be in flight at the end. `workers`: those whose grants may have changed.
void coordinator::tell_boundary(std::uint64_t until, std::vector<std::uint32_t> workers, effects& out) {
  if (!boundary_.mode().rests || (config_.any_worker_ends && until == config_.last_step)) return;
  if (notices_.take_forgot()) workers = every_worker();
  for (auto w : workers) {
    const auto n = notices_.due(w, ledger_.granted(w), until);
    if (!n) continue;
    auto h = to(config_.plan->workers[w]);
    h.mode_epoch = boundary_.mode_epoch();
    out.send({h, grant{n->until, n->number}});
  }
}

role_status coordinator::status() const {
  role_status s;
  s.step = completed();
  s.version = ledger_.max_granted();
  const auto is = boundary_.now();
  if (left_)
    s.wait(wait_kind::answers, left_->all.missing() > 0
                                   ? std::to_string(left_->all.missing()) + " inventories of shards and replicas"
                                   : std::to_string(collector_.missing()) + " surviving blocks of parameters");
  else if (boundary_.paused())
    s.wait(wait_kind::user, "resume");
  else if (is == boundary::state::flushing)
    s.wait(wait_kind::answers, std::to_string(config_.plan->shards.size() - boundary_.answers()) + " shards to finish the flush");
  else if (is == boundary::state::switching)
    s.wait(wait_kind::answers,
           std::to_string(config_.plan->workers.size() - boundary_.answers()) + " workers to adopt mode " + boundary_.mode().name);
  else if (is == boundary::state::collecting)
    s.wait(wait_kind::answers, std::to_string(collector_.missing()) + " blocks of parameters");
  else if (evaluation_.under_way())
    s.wait(wait_kind::answers, std::to_string(evaluation_.missing()) + " reports of the evaluation");
  else if (started_ && !ended_)
    s.wait(wait_kind::answers, "losses of step " + std::to_string(completed()));
  return s;
}

}  // namespace troupe
