// What the coordinator does at a boundary (settle, collect, switch the mode, end), and evaluation.
// size: what happens at one boundary, step by step; it becomes values of its own with the block collector
#include <algorithm>

#include "runtime/pipeline/coordinator.hpp"
#include "runtime/pipeline/staleness.hpp"

namespace troupe {
namespace {

double seconds(duration d) { return std::chrono::duration<double>(d).count(); }

}  // namespace

// --- evaluation

// In lockstep all workers evaluate with the weights they have; else the tester pulls weights and nobody stops.
void coordinator::begin_round(effects& out) {
  ++rounds_;
  evaluated_ = progress();
  want_eval_ = false;
  const bool at_rest = config_.mode.lockstep || settled_at_ == completed();
  judging_ = at_rest ? std::optional(completed()) : std::nullopt;
  round_ = new_round();
  send_round(out);
}

// Where the first worker to make its steps ends the job, the others are still on their way when the weights are collected: what is
// evaluated is what will be written, and it is the coordinator that has it.
void coordinator::begin_round_of_written(effects& out) {
  ++rounds_;
  evaluated_ = progress();
  judging_ = completed();
  round_ = new_round();
  send_round(out);
}

void coordinator::send_written(effects& out) const {
  for (const auto& b : config_.plan->blocks)
    out.send({to(config_.plan->tester), state{rounds_, b.id, written_->blocks[b.id]->value, {}}});
}

void coordinator::send_round(effects& out) const {
  const auto& plan = *config_.plan;
  auto whom = config_.mode.lockstep ? plan.loaders : std::vector<role_id>{plan.tester, plan.tester_loader};
  for (auto l : whom) send_round_to(l, out);
}

void coordinator::send_round_to(role_id loader, effects& out) const {
  if (written_ && loader == config_.plan->tester) return send_written(out);
  auto h = to(loader);
  h.version = config_.mode.lockstep ? evaluated_ : rounds_;
  if (config_.mode.lockstep) h.clock = ledger_.life((*config_.plan)[loader].worker);
  out.send({h, evaluate{rounds_}});
}

// By its own word or by what it reports, whichever comes first. What its former life has reported of the round was of other weights.
void coordinator::tester_is_back(std::uint32_t incarnation, effects& out) {
  if (incarnation <= tester_life_) return;
  tester_life_ = incarnation;
  if (!round_ || config_.mode.lockstep) return;
  round_ = new_round();
  send_round(out);  // ignored where it had been heard
}

void coordinator::round_complete(const report_sheet& reports, effects& out) {
  event_effect e{"eval", evaluated_, {}, {}};
  double loss = 0;
  bool have_accuracy = false;
  for (const auto& [name, value] : reports.means(*config_.graph)) {
    for (const auto& l : config_.graph->layers) {
      if (l.name != name) continue;
      if (l.maths->is_loss()) loss += l.loss_weight * value;
      if (l.maths->is_metric() && l.maths->more_is_better() && !have_accuracy) {
        have_accuracy = true;
        accuracy_ = value;
      } else if (l.maths->is_metric()) {
        e.values.emplace_back(name, value);
      }
    }
  }
  judged_ = judging_;
  if (have_accuracy) e.values.insert(e.values.begin(), {"accuracy", accuracy_});
  e.values.emplace_back("loss", loss);
  out.event(std::move(e));
  if (config_.mode.lockstep) last_step_at_ = now_;
  if (after_evaluation(config_.finish, facts(completed(), loss, accuracy_))) want_stop_ = true;
}

// --- settling and switching

void coordinator::begin_settle(effects& out) {
  settling_.emplace();
  ++settle_round_;
  if (!config_.mode.lockstep) judged_.reset();  // workers say what they hold, and the shards' weights change
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
  evaluated_ = std::max(evaluated_, completed());
}

// --- how old the weights were

void coordinator::begin_observe(effects& out) {
  if (observing_) return;
  observing_.emplace();
  histograms_.clear();
  for (auto w : config_.plan->workers) out.send({to(w), observe{}});
}

void coordinator::take_observation(const header& h, const observation& o, effects& out) {
  if (!observing_ || !observing_->insert(h.src).second) return;
  for (const auto& [name, counts] : o.histograms) {
    auto& all = histograms_[name];
    if (all.size() < counts.size()) all.resize(counts.size(), 0);
    for (std::size_t i = 0; i < counts.size(); ++i) all[i] += counts[i];
  }
  if (observing_->size() < config_.plan->workers.size()) return;
  observing_.reset();
  observed_ = true;
  event_effect e{"staleness", completed(), {}, {}};
  for (const auto& p : config_.graph->params) {
    const auto at = histograms_.find(p.full_name);
    if (at == histograms_.end()) continue;
    for (std::size_t i = 0; i < at->second.size(); ++i)
      if (at->second[i] > 0) e.values.emplace_back(staleness_key(p.full_name, i), static_cast<double>(at->second[i]));
  }
  out.event(std::move(e));
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
  const bool settled = config_.mode.lockstep || settled_at_ == completed();
  written_ = std::move(c);
  if (!settled && can_evaluate() && !stopped_by_person_) return begin_round_of_written(out);
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
  h->evaluated = evaluated_;
  h->rounds = rounds_;
  h->accuracy = accuracy_;
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
  if (accuracy_ >= 0 && judged_ == completed()) e.values.emplace_back("test_accuracy", accuracy_);
  e.values.emplace_back("seconds", seconds(now_ - begun_));
  e.values.emplace_back("packets", config_.plan->packets);
  out.event(std::move(e));
}

}  // namespace troupe
