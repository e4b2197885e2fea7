// The actions that `boundary` requests (evaluate, flush, switch the mode, collect, hand over, end),
// as messages and events.
#include <algorithm>
#include <iterator>
#include <utility>

#include "runtime/base/invariant.hpp"
#include "runtime/coordinator/coordinator.hpp"

namespace troupe {
namespace {

using kept = store_effect::kind_of;

}  // namespace

// --- evaluation

// In lockstep all workers evaluate with their current weights. Otherwise, and for averages of the
// weights, the tester pulls them from the shards while training continues (in lockstep: waits), or
// receives the final weights that will be written.
void coordinator::begin_round(effects& out) {
  const bool by_tester = !boundary_.lockstep() || evaluates_average();
  const bool at_rest = written_ || boundary_.at_rest(completed());
  const auto stages = reporting_stages(*config_.graph, *config_.plan, false, by_tester);
  if (!of_weights_) std::ranges::move(open_commands::take(open_.evaluation), std::back_inserter(open_.evaluating));
  evaluation_.begin(of_weights_ ? evaluation_.past().evaluated : progress(), at_rest ? std::optional(completed()) : std::nullopt,
                    by_tester, {config_.eval_packets, stages}, of_weights_.has_value());
  send_round(out);
}

// Of an evaluation of both the weights and their average, the round with the weights is complete:
// begins the other. Returns false if there is none; `v` then has the results of both.
bool coordinator::first_of_both(verdict& v, effects& out) {
  if (!config_.average.evaluated || !config_.average.weights_evaluated) return false;
  if (!of_weights_) {
    of_weights_ = std::move(v);
    begin_round(out);
    return true;
  }
  if (of_weights_->accuracy) v.others.emplace_back("weights.accuracy", *of_weights_->accuracy);
  v.others.emplace_back("weights.loss", of_weights_->loss);
  for (const auto& [name, value] : of_weights_->others) v.others.emplace_back("weights." + name, value);
  of_weights_.reset();
  return false;
}

void coordinator::send_written(effects& out) const {
  for (const auto& b : config_.plan->blocks) {
    const auto& block = *written_->blocks[b.id];
    const bool average = evaluates_average() && has_average(config_.graph->params[b.param]);
    out.send({to(config_.plan->tester), state{evaluation_.past().rounds, b.id, average ? block.rule.back() : block.value, {}}});
  }
}

void coordinator::send_round(effects& out) const {
  const auto& plan = *config_.plan;
  auto whom = evaluation_.by_tester() ? std::vector<role_id>{plan.tester, plan.tester_loader} : plan.loaders;
  for (auto l : whom) send_round_to(l, out);
}

void coordinator::send_round_to(role_id loader, effects& out) const {
  if (written_ && loader == config_.plan->tester) return send_written(out);
  auto h = to(loader);
  const bool by_tester = evaluation_.by_tester();
  h.version = by_tester ? evaluation_.past().rounds : evaluation_.past().evaluated;
  if (by_tester && boundary_.lockstep()) h.step = completed();
  out.send({h, evaluate{evaluation_.past().rounds, evaluates_average()}});
}

void coordinator::round_complete(const report_sheet& reports, effects& out) {
  auto v = verdict_of(*config_.graph, reports.means(*config_.graph));
  if (first_of_both(v, out)) return;
  evaluation_.record_result(v.accuracy);
  out.event(evaluation_.past().evaluated, eval_event{v.accuracy, std::move(v.others), v.loss},
            open_commands::take(open_.evaluating));
  if (boundary_.lockstep()) time_.last_step = time_.now;
  rate_round(v, out);
  // The memory of conditions and the rate are part of the last checkpoint: a run that is extended
  // continues as the longer run would have.
  if (!boundary_.evaluation_counts()) return;
  if (after_evaluation(config_.finish, known(completed(), v.loss, evaluation_.past().accuracy))) boundary_.want_end();
  lower_rate(v, out);
}

// The schedule "plateau".
void coordinator::lower_rate(const verdict& v, effects& out) {
  if (!config_.plateau || !config_.plateau->after_evaluation(v.loss, v.accuracy.value_or(-1)) || boundary_.finishing()) return;
  const auto lr = base_lr_of(ledger_.max_granted()), lowered = config_.plateau->lowered(lr);
  if (lowered < lr) take_setting({"train.dynamics.lr", lowered}, 0, out);
}

// --- flushing and switching

void coordinator::send_flush(role_id worker, effects& out) const {
  auto h = to(worker);
  h.step = completed();
  h.mode_epoch = boundary_.mode_epoch();
  out.send({h, flush{boundary_.flush_round()}});
}

void coordinator::begin_switch(effects& out) {
  notices_.forget_all();
  for (const auto* roles : {&config_.plan->shards, &config_.plan->workers})
    for (auto r : *roles) send_adopt(r, out);
}

void coordinator::send_adopt(role_id r, effects& out) const {
  auto h = to(r);
  h.step = boundary_.epoch_began_at();
  h.mode_epoch = boundary_.mode_epoch();
  out.send({h, adopt{boundary_.mode().name, boundary_.mode().options}});
}

void coordinator::switched(effects& out) {
  out.event(completed(), mode_event{boundary_.mode().choice()}, open_commands::take(open_.mode));
  time_.last_step = time_.now;
  evaluation_.skip_to(completed());
  repeat_histograms_request(out);
}

// --- staleness

void coordinator::begin_observe(effects& out) {
  if (!staleness_.ask()) return;
  for (auto w : config_.plan->workers) out.send({to(w), observe{}});
}

// --- collecting

void coordinator::begin_collect(effects& out) {
  // Carried state: only if the job continues from this collection.
  const bool best = boundary_.why() == boundary::purpose::best;
  const bool with_rule = !best || config_.average.evaluated;
  if (boundary_.why() == boundary::purpose::checkpoint) open_.collecting = open_commands::take(open_.checkpoint);
  collector_.begin(!best && (boundary_.why() != boundary::purpose::last || keeps_last()), with_rule);
  const collect question{collector_.request(), with_rule};
  for (auto s : collector_.asked_stages()) out.send({to(s), question});
  for (auto s : collector_.asked_shards()) {
    auto h = to(s);
    h.version = boundary_.lockstep() ? completed() : 0;
    out.send({h, question});
  }
  if (collector_.missing() == 0) out.run([](task_context&) {}, {}, collector_.request());
}

void coordinator::take_state(const envelope& e, effects& out) {
  const auto missing = collector_.missing();
  if (!collector_.take(std::get<state>(e.body))) {
    if (collector_.missing() == missing) drop(drop_reason::outdated);
    return;
  }
  out.run(collector_.join(), {0, 8.0 * static_cast<double>(config_.graph->parameter_count), "collect"}, collector_.request());
}

void coordinator::collected(effects& out) {
  if (!collector_.under_way()) return drop(drop_reason::unrequested);
  auto c = collector_.joined();
  const auto why = boundary_.why();
  // Written weights were evaluated, or will be, by the tester.
  if (best_.pending() && !best_.fetching())
    store_best(c.weights_or_average(*config_.graph, config_.average.evaluated), c.not_finite, out);
  if (why == boundary::purpose::best) {
    boundary_.collected(completed());
    time_.last_step = time_.now;
    return;
  }
  // Not stored, so the previous checkpoint remains the newest.
  if (!c.not_finite.empty()) {
    ended_ = true;
    return out.event(completed(), error_event{"'" + c.not_finite + "' is not finite at step " + std::to_string(completed()) +
                                              ": nothing is stored" + config_.if_diverged});
  }
  const bool evaluates = boundary_.collected(completed());
  if (why == boundary::purpose::handover) return hand_over(std::move(c), out);
  if (why == boundary::purpose::checkpoint || keeps_last()) {
    out.store({kept::checkpoint, completed(), c.all(), std::make_shared<handover>(handover_now(c))});
    if (why != boundary::purpose::checkpoint) open_.collecting = open_commands::take(open_.checkpoint);
    out.event(completed(), checkpoint_event{}, open_commands::take(open_.collecting));
  }
  time_.last_step = time_.last_checkpoint = time_.now;
  if (why != boundary::purpose::last) return;
  written_ = std::move(c);
  if (evaluates) return begin_round(out);
  write(out);
}

void coordinator::write(effects& out) {
  invariant(written_.has_value(), "weights are collected before they are written");
  out.store({kept::weights, completed(), written_->weights_or_average(*config_.graph, config_.average.written)});
  end(out);
}

// --- from one plan to the next

handover coordinator::handover_now(const collection& c) const {
  handover h;
  h.step = completed();
  h.evaluated = evaluation_.past().evaluated;
  h.rounds = evaluation_.past().rounds;
  h.accuracy = evaluation_.past().accuracy;
  h.best = best_.so_far();
  h.seconds = seconds_of(time_.now - time_.begun);
  h.paused = boundary_.pausing();
  h.settings = settings_;
  h.mode = boundary_.mode().text();
  h.updates = c.updates_by_param(*config_.graph, *config_.plan);
  h.finish = memory_of(config_.finish);
  if (config_.plateau) h.finish[rate_plateau::name] = config_.plateau->memory();
  return h;
}

void coordinator::hand_over(collection c, effects& out) {
  auto h = std::make_shared<handover>(handover_now(c));
  if (config_.before) h->notified = config_.before->notified;  // an earlier plan may have reported later steps
  if (!histograms_.requested().empty())
    refuse("histograms: the job was moved first; request them again", out, open_commands::take(open_.histograms));
  // The next plan begins paused, at this step.
  if (!open_.pause.empty()) out.event(completed(), paused_event{}, open_commands::take(open_.pause));
  out.store({kept::handover, completed(), c.all(), std::move(h)});
  ended_ = true;
}

// --- node failures

// Recovery mode, after node failures: inventories, surviving blocks and settings are accepted, all
// other messages are dropped. Returns true if the message was handled here.
bool coordinator::answers_quiesced(const envelope& e, effects& out) {
  const auto* c = std::get_if<command>(&e.body);
  const auto* question = c ? c->as<surviving_state_command>() : nullptr;
  const auto* setting = c ? c->as<set_command>() : nullptr;
  if (question) take_surviving_state_command(*question, out);
  if (!left_) return question != nullptr;
  const auto* f = std::get_if<finished>(&e.body);
  if (std::holds_alternative<inventory>(e.body))
    take_inventory(e, out);
  else if (left_->step && std::holds_alternative<state>(e.body))
    take_state(e, out);
  else if (left_->step && f && f->token == collector_.request())
    surviving_state_collected(out);
  else if (setting)
    take_setting(*setting, c->id, out);
  else if (!question)
    drop(drop_reason::quiesced);
  return true;
}

void coordinator::take_inventory(const envelope& e, effects& out) {
  const auto missing = left_->all.missing();
  if (!left_->all.take(e.h.src, std::get<inventory>(e.body))) {
    if (left_->all.missing() == missing) drop(drop_reason::outdated);
    return;
  }
  const auto left = boundary_.mode().left;
  // A lost worker may have been far behind: the surviving ones need not repeat the steps that it
  // lacked.
  auto step = completed();
  if (left == survivor_rule::newest)
    step = std::max(step, std::min(ledger_.least_done([this](std::uint32_t w) { return lives(w); }), ledger_.max_done()));
  const auto what = left_->all.find(left, step);
  if (!what) return refuse_handover(what.error().text, out);
  const auto& found = *what;
  left_->step = left == survivor_rule::newest ? step : found.version;
  collector_.begin(false);
  for (auto r : found.from) {
    auto h = to(r);
    h.version = found.version;
    out.send({h, collect{collector_.request(), true}});
  }
}

void coordinator::surviving_state_collected(effects& out) {
  if (!collector_.under_way() || collector_.missing() > 0) return;
  auto c = collector_.joined();
  if (!c.not_finite.empty()) return refuse_handover("'" + c.not_finite + "' is not finite", out);
  auto h = std::make_shared<handover>(handover_now(c));
  // If the weights of the last round were to be stored as the best, the next plan repeats the
  // round.
  const auto& past = best_.pending() ? evaluation_.before_last() : evaluation_.last_finished();
  h->step = *left_->step;
  h->evaluated = past.evaluated;
  h->rounds = past.rounds;
  h->accuracy = past.accuracy;
  const auto before = config_.before ? config_.before->notified : 0;  // an earlier plan may have reported later steps
  h->notified = boundary_.mode().left == survivor_rule::versions ? std::max(completed(), before) : 0;
  h->keep = boundary_.keeping();
  out.store({kept::handover, h->step, c.all(), std::move(h)});
}

// Cuts the blocks of this plan from the previous plan's parameters and sends them.
void coordinator::restore_blocks(effects& out) {
  auto& b = *config_.before;
  time_.begun -= std::chrono::duration_cast<duration>(std::chrono::duration<double>(b.seconds));
  cutter_.emplace(*config_.graph, config_.plan, config_.rule_states,
                  block_cutter::source{b.step, std::exchange(b.named, {}), b.updates});
  send_restored(cutter_->at_once(), out);
  if (cutter_->more()) out.run(cutter_->cut(), {0, 8.0 * static_cast<double>(config_.graph->parameter_count), "cut"}, cut_token);
  for (const auto& s : settings_) send_setting(s, out);
}

void coordinator::send_restored(std::vector<restored_block> list, effects& out) const {
  for (auto& b : list) {
    auto h = to(b.to);
    h.version = b.version;
    out.send({h, std::move(b.what)});
  }
}

void coordinator::end(effects& out) {
  ended_ = true;
  if (const auto& mode = boundary_.wanted_mode())
    refuse("the job ended at step " + std::to_string(completed()) + ", before the switch to mode '" + mode->name + "'", out,
           open_commands::take(open_.mode));
  done_event e;
  if (boundary_.stopped()) e.how = how_ended::stopped;
  e.steps = completed();
  e.epochs = static_cast<double>(completed()) / static_cast<double>(config_.steps_per_epoch);
  if (const auto a = evaluation_.past().accuracy; a >= 0 && evaluation_.weights_evaluated(completed())) e.test_accuracy = a;
  e.seconds = seconds_of(time_.now - time_.begun);
  e.packets = config_.plan->packets;
  out.event(completed(), std::move(e));
}

}  // namespace troupe
