// What the coordinator does at a boundary (settle, collect, switch the mode, end), and evaluation.
// size: what happens at one boundary, step by step; it becomes values of its own with the block collector
#include <algorithm>

#include "runtime/pipeline/coordinator.hpp"

namespace troupe {
namespace {

double seconds(duration d) { return std::chrono::duration<double>(d).count(); }

}  // namespace

// --- evaluation

// In lockstep all workers evaluate with the weights they have; else the tester pulls weights and nobody stops. `of`: the step whose
// weights it judges, if these are one step's.
void coordinator::begin_round(std::optional<std::uint64_t> of, effects& out) {
  want_eval_ = false;
  const bool by_tester = !config_.mode.lockstep;
  const auto stages = reporting_stages(*config_.graph, *config_.plan, false, by_tester);
  evaluation_.begin(progress(), of, by_tester, {config_.eval_packets, stages});
  send_round(out);
}

void coordinator::send_written(effects& out) const {
  for (const auto& b : config_.plan->blocks)
    out.send({to(config_.plan->tester), state{evaluation_.past().rounds, b.id, written_->blocks[b.id]->value, {}}});
}

void coordinator::send_round(effects& out) const {
  const auto& plan = *config_.plan;
  auto whom = config_.mode.lockstep ? plan.loaders : std::vector<role_id>{plan.tester, plan.tester_loader};
  for (auto l : whom) send_round_to(l, out);
}

void coordinator::send_round_to(role_id loader, effects& out) const {
  if (written_ && loader == config_.plan->tester) return send_written(out);
  auto h = to(loader);
  h.version = config_.mode.lockstep ? evaluation_.past().evaluated : evaluation_.past().rounds;
  if (config_.mode.lockstep) h.clock = ledger_.life((*config_.plan)[loader].worker);
  out.send({h, evaluate{evaluation_.past().rounds}});
}

// By its own word or by what it reports, whichever comes first.
void coordinator::tester_lives(std::uint32_t incarnation, effects& out) {
  if (evaluation_.tester_lives(incarnation)) send_round(out);  // ignored where it had been heard
}

void coordinator::round_complete(const report_sheet& reports, effects& out) {
  auto v = verdict_of(*config_.graph, reports.means(*config_.graph));
  evaluation_.judge(v.accuracy);
  event_effect e{"eval", evaluation_.past().evaluated, {}, {}};
  if (v.accuracy) e.values.emplace_back("accuracy", *v.accuracy);
  for (auto& other : v.others) e.values.push_back(std::move(other));
  e.values.emplace_back("loss", v.loss);
  out.event(std::move(e));
  if (config_.mode.lockstep) last_step_at_ = now_;
  if (after_evaluation(config_.finish, facts(completed(), v.loss, evaluation_.past().accuracy))) want_stop_ = true;
}

// --- settling and switching

void coordinator::begin_settle(effects& out) {
  settling_.emplace();
  ++settle_round_;
  if (!config_.mode.lockstep) evaluation_.weights_change();  // workers say what they hold, and the shards' weights change
  for (auto w : config_.plan->workers) send_settle(w, out);
}

void coordinator::send_settle(role_id worker, effects& out) const {
  auto h = to(worker);
  h.id = msg_id{settle_round_};
  h.step = completed();
  h.flags = static_cast<std::uint16_t>((era_ & 0xff) << 8);
  out.send({h, settle{}});
}

void coordinator::begin_switch(effects& out) {
  config_.mode = std::move(*want_mode_);
  want_mode_.reset();
  switched_at_ = completed();
  settled_at_.reset();
  switching_.emplace();
  told_.assign(told_.size(), 0);
  ++era_;
  for (const auto* roles : {&config_.plan->shards, &config_.plan->workers})
    for (auto r : *roles) out.send({adoption(r), adopt{config_.mode.name, config_.mode.options}});
}

header coordinator::adoption(role_id r) const {
  auto h = to(r);
  h.step = switched_at_;
  h.clock = era_;
  return h;
}

void coordinator::switched(effects& out) {
  switching_.reset();
  out.event({"mode", completed(), {}, mode_text()});
  last_step_at_ = now_;
  evaluation_.skip_to(completed());
}

// --- how old the weights were

void coordinator::begin_observe(effects& out) {
  if (!staleness_.ask()) return;
  for (auto w : config_.plan->workers) out.send({to(w), observe{}});
}

void coordinator::take_observation(const header& h, const observation& o, effects& out) {
  if (staleness_.take(h.src, o)) out.event({"staleness", completed(), staleness_.sums(*config_.graph), {}});
}

// --- collecting

void coordinator::begin_collect(purpose why, effects& out) {
  collecting_ = why;
  want_checkpoint_ = false;
  collector_.begin(why != purpose::end || stopped_by_person_);  // what is carried is of use to who goes on
  const collect question{collector_.request(), true};
  for (auto s : collector_.asked_stages()) out.send({to(s), question});
  for (auto s : collector_.asked_shards()) {
    auto h = to(s);
    h.version = config_.mode.lockstep ? completed() : 0;
    out.send({h, question});
  }
  if (collector_.missing() == 0) out.run([](job_context&) {}, {}, collector_.request());
}

void coordinator::take_state(const envelope& e, effects& out) {
  if (!collector_.take(std::get<state>(e.body), e.h.step)) return;
  out.run(collector_.join(), {0, 8.0 * static_cast<double>(config_.graph->parameter_count), "collect"}, collector_.request());
}

void coordinator::collected(effects& out) {
  if (!collector_.under_way()) return;
  auto c = collector_.joined();
  if (collecting_ == purpose::handover) return hand_over(std::move(c), out);
  if (collecting_ == purpose::checkpoint || stopped_by_person_) {
    out.store({"checkpoint", completed(), c.all()});
    out.event({"checkpoint", completed(), {}, {}});
  }
  last_step_at_ = now_;
  if (collecting_ != purpose::end) return;
  // Where the first worker to make its steps ends the job, the others are still on their way: what is evaluated is what will be
  // written, and it is the coordinator that has it.
  const bool settled = config_.mode.lockstep || settled_at_ == completed();
  written_ = std::move(c);
  if (!settled && can_evaluate() && !stopped_by_person_) return begin_round(completed(), out);
  write(out);
}

void coordinator::write(effects& out) {
  out.store({"weights", completed(), std::move(written_->weights)});
  end(out);
}

// --- from one plan to the next

void coordinator::hand_over(collection c, effects& out) {
  auto h = std::make_shared<handover>();
  h->step = completed();
  h->evaluated = evaluation_.past().evaluated;
  h->rounds = evaluation_.past().rounds;
  h->accuracy = evaluation_.past().accuracy;
  h->seconds = seconds(now_ - begun_);
  h->paused = paused_ || want_pause_;
  h->settings = settings_;
  h->updates = c.updates_by_param(*config_.graph, *config_.plan);
  h->finish = std::make_shared<finish_conditions>(std::move(config_.finish));
  out.store({"handover", completed(), c.all(), std::move(h)});
  ended_ = true;
}

// The blocks of this plan, cut from the parameters as the last one left them.
void coordinator::restore(effects& out) {
  auto& b = *config_.before;
  begun_ -= std::chrono::duration_cast<duration>(std::chrono::duration<double>(b.seconds));
  cutter_.emplace(*config_.graph, config_.plan, config_.rule_states,
                  block_cutter::source{b.step, std::exchange(b.named, {}), b.updates});
  send_restored(cutter_->ready(), out);
  if (cutter_->more()) out.run(cutter_->cut(), {0, 8.0 * static_cast<double>(config_.graph->parameter_count), "cut"}, cut_token);
  for (const auto& s : settings_) {
    for (auto r : config_.plan->shards) out.send({to(r), s});
    for (auto r : config_.plan->workers) out.send({to(r), s});
  }
}

void coordinator::send_cut(effects& out) { send_restored(cutter_->picked(), out); }

void coordinator::send_restored(std::vector<restored_block> list, effects& out) const {
  for (auto& b : list) {
    auto h = to(b.to);
    h.version = b.version;
    h.step = b.updates;
    out.send({h, std::move(b.what)});
  }
}

void coordinator::end(effects& out) {
  ended_ = true;
  if (want_mode_)
    out.event({"refused",
               completed(),
               {},
               "the job ends at step " + std::to_string(completed()) + ", before it takes mode '" + want_mode_->name + "'"});
  event_effect e{"done", completed(), {}, stopped_by_person_ ? "stopped" : "finished"};
  e.values.emplace_back("steps", static_cast<double>(completed()));
  e.values.emplace_back("epochs", static_cast<double>(completed()) / static_cast<double>(config_.steps_per_epoch));
  if (const auto a = evaluation_.past().accuracy; a >= 0 && evaluation_.judged(completed()))
    e.values.emplace_back("test_accuracy", a);
  e.values.emplace_back("seconds", seconds(now_ - begun_));
  e.values.emplace_back("packets", config_.plan->packets);
  out.event(std::move(e));
}

}  // namespace troupe
