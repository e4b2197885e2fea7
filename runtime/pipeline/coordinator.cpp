#include "runtime/pipeline/coordinator.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "runtime/graph/plan_check.hpp"

namespace troupe {
namespace {

double seconds(duration d) { return std::chrono::duration<double>(d).count(); }

}  // namespace

coordinator::coordinator(coordinator_config c)
    : config_(std::move(c)),
      ledger_(*config_.plan, reporting_stages(*config_.graph, *config_.plan, true, false), config_.first_step),
      collector_(config_.graph, config_.plan, config_.rule_states, config_.type),
      dealer_(config_.plan->packets, config_.mode.portion, static_cast<std::uint32_t>(config_.plan->workers.size())),
      evaluation_(config_.before
                      ? evaluation_round::history{config_.before->evaluated, config_.before->rounds, config_.before->accuracy}
                      : evaluation_round::history{config_.first_step, 0, -1}),
      staleness_(config_.plan->workers) {
  told_.assign(ledger_.workers(), 0);
  if (!config_.before) return;
  const auto& b = *config_.before;
  settings_ = b.settings;
  want_pause_ = paused_ = b.paused;
  if (paused_) hold();
}

header coordinator::to(role_id r) const {
  header h;
  h.job = config_.job;
  h.src = config_.self;
  h.dst = r;
  return h;
}

void coordinator::on(const envelope& e, time_point now, effects& out) {
  now_ = now;
  if (ended_) return;
  std::visit(overloaded{
                 [&](const start&) { begin(now, out); },
                 [&](const report&) { take_report(e, out); },
                 [&](const state&) { take_state(e, out); },
                 [&](const ready& r) { take_ready(e.h, r, out); },
                 [&](const observation& o) { take_observation(e.h, o, out); },
                 [&](const command& c) { take_command(c, out); },
                 [&](const finished& f) { f.token == cut_token ? send_cut(out) : collected(out); },
                 [&](const peer_down& p) {
                   ended_ = true;
                   out.event({"error", completed(), {}, "node " + p.node + " is lost: " + p.reason + held_by(e.h, p.node)});
                 },
                 [&](const auto&) {},
             },
             e.body);
  advance(out);
}

// For the message that ends a job with a lost node: the roles that the node had, so that a person sees what is missing. When a role
// reports its own end (h.src is that role), it has named itself, and nothing is added.
std::string coordinator::held_by(const header& h, const std::string& node) const {
  std::string names;
  for (const auto& r : config_.plan->roles) {
    const bool part = r.kind == role_kind::stage || r.kind == role_kind::loader || r.kind == role_kind::reducer;  // of a worker
    if (h.src != no_role || part || config_.plan->nodes[r.node].name != node) continue;
    names += (names.empty() ? "; it had " : ", ") + r.name;
  }
  return names;
}

void coordinator::begin(time_point now, effects& out) {
  if (started_) return;
  started_ = true;
  begun_ = last_step_at_ = now;
  if (const auto faults = check_plan(*config_.plan, *config_.graph); !faults.empty()) {
    ended_ = true;
    return out.event({"error", completed(), {}, "the plan is refused: " + faults.front().text});
  }
  if (config_.before) restore(out);
  for (auto s : config_.plan->shards) out.send({to(s), start{}});
}

// --- losses

void coordinator::take_portion_done(std::uint32_t worker, const header& h, effects& out) {
  if (h.packets > 0) return dealer_.done(worker, h.step, h.packet);
  if (!dealer_.over(h.step)) return;
  give_up_done_portions();
  complete_steps(out);
}

void coordinator::send_portion(std::uint32_t worker, const portion& p, effects& out) const {
  auto h = to(config_.plan->loaders[worker]);
  h.clock = ledger_.life(worker);
  out.send({h, p});
}

// Evaluation or the last collection may have begun when sums were lost with a worker. The others have begun to evaluate and wait for
// these weights: those that were restarted evaluate later.
void coordinator::deal_again(effects& out) {
  if (!dealer_.lost_one()) return;
  for (const auto& d : dealer_.deal()) send_portion(d.worker, d.what, out);
  if (!dealer_.complete()) return;
  for (auto w : evaluation_.take_put_off())
    if (evaluation_.under_way()) send_round_to(config_.plan->loaders[w], out);
}

// A portion that is done is not dealt again, but its losses may have been lost with the worker: do not wait for them.
void coordinator::give_up_done_portions() {
  ledger_.give_up_packets([&](std::uint64_t step, std::uint32_t packet) { return dealer_.has_done(step, packet); });
}

void coordinator::take_report(const envelope& e, effects& out) {
  const bool train = e.h.phase == static_cast<std::uint8_t>(phase::train);
  const bool of_round = !train && evaluation_.is(e.h.step);
  if (of_round && !config_.mode.lockstep) tester_lives(e.h.incarnation, out);
  if (index_of(e.h.src) >= config_.plan->roles.size()) return;
  const auto& stage = (*config_.plan)[e.h.src];
  if (!reports_in(*config_.graph, stage, train)) return;
  const auto& told = std::get<report>(e.body);
  if (train) {
    // Of a void packet: where portions are dealt, somebody else reports; else nobody will (a restarted worker is behind its gradients).
    if (written_ || (dealer_.deals() && told.valid == 0)) return;
    if (ledger_.take(e.h.step, e.h.packet, stage.layers.front(), told)) complete_steps(out);
    return;
  }
  if (!of_round) return;
  if (const auto all = evaluation_.take(e.h.packet, stage.layers.front(), told)) round_complete(*all, out);
}

void coordinator::complete_steps(effects& out) {
  for (const auto& s : ledger_.take_complete()) step_complete(s.step, s.reports, out);
}

void coordinator::step_complete(std::uint64_t step, const report_sheet& reports, effects& out) {
  const auto loss = loss_of(*config_.graph, reports.means(*config_.graph));
  const auto steps = step + 1;
  event_effect e{"step", steps, {}, {}};
  const double took = seconds(now_ - last_step_at_);
  last_step_at_ = now_;
  e.values.emplace_back("loss", loss);
  e.values.emplace_back("examples_per_s", took > 0 ? static_cast<double>(config_.batch) / took : 0.0);
  out.event(std::move(e));
  if (!std::isfinite(loss)) {
    out.event({"error", steps, {}, "the loss is not finite at step " + std::to_string(steps)});
    ended_ = true;
  }
  if (after_step(config_.finish, facts(steps, loss, -1))) want_stop_ = true;
}

finish_facts coordinator::facts(std::uint64_t steps, double loss, double accuracy) const {
  const auto epochs = static_cast<double>(steps) / static_cast<double>(config_.steps_per_epoch);
  return {steps, epochs, seconds(now_ - begun_), loss, accuracy};
}

// --- workers that have been restarted

void coordinator::take_ready(const header& h, const ready& r, effects& out) {
  if (index_of(h.src) >= config_.plan->roles.size()) return;
  const auto& who = (*config_.plan)[h.src];
  switch (r.what) {
    case ready::what_of::settled:
      if (!settling_ || static_cast<std::uint64_t>(h.id) != settle_round_ || who.kind != role_kind::shard) return;
      settling_->insert(h.src);
      if (settling_->size() < config_.plan->shards.size()) return;
      settling_.reset();
      settled_at_ = completed();
      return;
    case ready::what_of::adopted:
      if (!switching_ || h.clock != era_ || who.kind != role_kind::worker) return;
      switching_->insert(h.src);
      if (switching_->size() == config_.plan->workers.size()) switched(out);
      return;
    case ready::what_of::joined:
      if (who.kind == role_kind::loader && config_.keeps) loader_is_back(h.src, out);
      if (who.kind == role_kind::worker && config_.plan->rule != weight_rule::drain && !config_.keeps) {
        ended_ = true;
        return out.event({"error",
                          completed(),
                          {},
                          "node " + config_.plan->nodes[who.node].name +
                              " was restarted: the versions of weights that packets under way have met are gone with it"});
      }
      if (who.kind == role_kind::tester) tester_lives(h.incarnation, out);
      if (who.kind == role_kind::worker) {
        const bool again = ledger_.meet(who.worker, h.incarnation);
        joined(who.worker, h.step, again, out);
      }
      // It joined before the shards took the mode that all take now, or it gets no blocks and no shard can tell it (the half of placed
      // layers without parameters); what we told it was lost with it.
      if (era_ > 0 && who.kind == role_kind::worker && h.flags >> 8 != static_cast<std::uint8_t>(era_))
        out.send({adoption(h.src), adopt{config_.mode.name, config_.mode.options}});
      return;
    case ready::what_of::portion:
      if (who.kind == role_kind::worker) take_portion_done(who.worker, h, out);
      return;
  }
}

// `again`: its word has come twice; what it was dealt since is not lost.
void coordinator::joined(std::uint32_t worker, std::uint64_t step, bool again, effects& out) {
  if (config_.keeps) {  // nothing else is lost with it
    if (staleness_.waits_for(config_.plan->workers[worker])) out.send({to(config_.plan->workers[worker]), observe{}});
    if (settling_) send_settle(config_.plan->workers[worker], out);
    return;
  }
  if (worker >= ledger_.workers()) return;  // the half of a placed layer: no loader, no packets of its own
  told_[worker] = 0;
  ledger_.give_up_before(worker, step);
  if (dealer_.dealt() && !again) {
    for (const auto& p : dealer_.lost(worker, step)) send_portion(worker, p, out);
    give_up_done_portions();
  }
  if (ledger_.granted(worker) > config_.first_step && !dealer_.deals())
    out.send({to(config_.plan->loaders[worker]), grant{ledger_.granted(worker)}});
  const bool evaluates = evaluation_.under_way() && config_.mode.lockstep;
  evaluation_.put_off(worker, evaluates && !dealer_.complete());
  if (evaluates && dealer_.complete()) send_round_to(config_.plan->loaders[worker], out);
  ledger_.open_below(step);  // steps of which nobody has reported yet, and that it will not report
  complete_steps(out);
  if (staleness_.waits_for(config_.plan->workers[worker])) out.send({to(config_.plan->workers[worker]), observe{}});
  if (settling_) send_settle(config_.plan->workers[worker], out);  // its word may have been lost with it
}

// It begins with the oldest step of which anybody may want a packet: who has them takes them for what they are, packets that come twice.
void coordinator::loader_is_back(role_id loader, effects& out) {
  const auto worker = (*config_.plan)[loader].worker;
  out.send({to(loader), resume_at{std::max(config_.first_step, config_.plan->needed_from(completed()))}});
  if (ledger_.granted(worker) > config_.first_step) out.send({to(loader), grant{ledger_.granted(worker)}});
  if (evaluation_.under_way()) send_round_to(loader, out);
}

// --- a person

void coordinator::hold() { hold_ = std::max(ledger_.most_granted(), completed()); }

void coordinator::take_command(const command& c, effects& out) {
  const auto refuse = [&](std::string why) { out.event({"refused", completed(), {}, std::move(why)}); };
  if (c.name == "pause") {
    want_pause_ = true;
    hold();
  } else if (c.name == "resume") {
    want_pause_ = false;
    if (paused_) {
      out.event({"resumed", completed(), {}, {}});
      settled_at_.reset();
    }
    paused_ = false;
    last_step_at_ = now_;
    hold_.reset();
  } else if (c.name == "stop") {
    want_stop_ = stopped_by_person_ = true;
    want_pause_ = paused_ = false;
    hold();
  } else if (c.name == "checkpoint") {
    want_checkpoint_ = true;
    hold();
  } else if (c.name == "eval") {
    want_eval_ = can_evaluate();
    if (config_.mode.lockstep) hold();
  } else if (c.name == "mode") {
    take_mode_command(c.key, c.options, out);
  } else if (c.name == "handover") {
    take_handover_command(c, out);
  } else if (c.name == "staleness") {
    begin_observe(out);
  } else if (c.name == "set" && c.key.starts_with("train.sync.")) {
    auto options = config_.mode.options;
    const auto key = c.key.substr(11);
    std::erase_if(options, [&](const auto& o) { return o.first == key; });
    for (const auto& o : c.options) options.emplace_back(key, o.second);
    if (c.options.empty()) return refuse("no value for " + c.key);
    take_mode_command(config_.mode.name, std::move(options), out);
  } else if (c.name == "set") {
    const auto from = ledger_.most_granted();
    settings_.push_back({c.key, c.value, from});
    for (auto s : config_.plan->shards) out.send({to(s), settings_.back()});
    for (auto w : config_.plan->workers) out.send({to(w), settings_.back()});
    out.event({"set", from, {{c.key, c.value}}, {}});
  } else {
    refuse("unknown command '" + c.name + "'");
  }
}

// From the host: the next plan of this job is ready everywhere, made for mode `key`.
void coordinator::take_handover_command(const command& c, effects& out) {
  const auto refuse = [&](std::string why) { out.event({"refused", completed(), {{"handover", 1}}, std::move(why)}); };
  if (want_mode_ || switching_ || c.key != mode_text())
    return refuse("the mode has changed meanwhile (it is " + mode_text() + "): say it again");
  if (config_.plan->server_groups > 1) return refuse("with several server groups the placement is fixed");
  want_handover_ = true;
  hold();
}

std::string coordinator::mode_text() const {
  std::string text = config_.mode.name;
  for (const auto& [key, value] : config_.mode.options) text.append(" ").append(key).append("=").append(value);
  return text;
}

void coordinator::take_mode_command(const std::string& name, std::vector<std::pair<std::string, std::string>> options,
                                    effects& out) {
  std::string why;
  std::optional<mode_facts> found;
  if (!config_.find_mode)
    why = "this job's mode is fixed";
  else if (want_handover_)
    why = "layers are being moved";
  else if (want_mode_ || switching_)
    why = "a switch to mode '" + (want_mode_ ? want_mode_->name : config_.mode.name) + "' is under way";
  else if (config_.plan->through_reducers())
    why = "with reducer = \"tree\" the mode is fixed: no other takes it";
  else if (config_.plan->server_groups > 1)
    why = "with several server groups the mode is fixed";
  else
    found = config_.find_mode(name, options, why);
  if (found && (found->portion > 0 || config_.mode.portion > 0)) {
    found.reset();
    why = "portions are dealt from the first step on: a job cannot switch to or from sandblaster";
  }
  if (!found) return out.event({"refused", completed(), {}, why});
  want_mode_ = std::move(found);
  hold();
}

// --- grants and boundaries

std::uint64_t coordinator::next_boundary() const {
  std::uint64_t at = config_.last_step > 0 ? config_.last_step : ~0ull;
  if (config_.eval_every > 0 && config_.eval_packets > 0 && config_.mode.lockstep) {
    at = std::min(at, evaluation_.next(config_.eval_every));
  }
  if (hold_) at = std::min(at, *hold_);
  if (want_stop_) at = std::min(at, ledger_.most_granted());
  return at;
}

std::uint64_t coordinator::progress() const {
  if (config_.mode.lockstep) return completed();
  return ledger_.mean_done();
}

void coordinator::grant_steps(std::uint64_t boundary, effects& out) {
  if (paused_) return;
  if (dealer_.deals()) {
    if (const auto next = dealer_.next_step(completed()); next && *next < boundary) {
      dealer_.open(*next);
      for (std::uint32_t w = 0; w < ledger_.workers(); ++w) ledger_.grant(w, *next + 1);
    }
    for (const auto& d : dealer_.deal()) send_portion(d.worker, d.what, out);
    return;
  }
  for (std::uint32_t w = 0; w < ledger_.workers(); ++w) {
    const auto until = std::min((config_.mode.lockstep ? completed() : ledger_.done(w)) + config_.window, boundary);
    if (!ledger_.grant(w, until)) continue;
    out.send({to(config_.plan->loaders[w]), grant{until}});
  }
  tell_boundary(boundary, out);
}

// For workers that rest: which of the steps they were granted are the last for now; 0: more will be granted. Where the first one to make its
// steps ends the job, nobody rests there: what it has must not be under way at the end.
void coordinator::tell_boundary(std::uint64_t boundary, effects& out) {
  if (!config_.mode.rests || (config_.any_worker_ends && boundary == config_.last_step)) return;
  for (std::uint32_t w = 0; w < ledger_.workers(); ++w) {
    const auto until = ledger_.granted(w) >= boundary ? boundary : 0;
    if (std::exchange(told_[w], until) == until) continue;
    auto h = to(config_.plan->workers[w]);
    h.id = msg_id{++words_};
    h.flags = static_cast<std::uint16_t>((era_ & 0xff) << 8);
    out.send({h, grant{until}});
  }
}

// Grants what may run; at a boundary does what is due there, one thing at a time.
void coordinator::advance(effects& out) {
  if (!ended_) deal_again(out);
  while (started_ && !ended_ && !collector_.under_way() && !settling_ && !switching_) {
    if (evaluation_.under_way() && (config_.mode.lockstep || written_)) return;
    if (written_) return write(out);
    const bool any_done = config_.any_worker_ends && config_.last_step > 0 && ledger_.most_done() >= config_.last_step;
    const bool last_round_comes = (any_done || ends_here()) && !stopped_by_person_;
    if (!config_.mode.lockstep && !evaluation_.under_way() && can_evaluate() && config_.eval_every > 0 && !last_round_comes &&
        evaluation_.due(progress(), config_.eval_every))
      want_eval_ = true;
    if (!config_.mode.lockstep && !evaluation_.under_way() && want_eval_)
      begin_round(settled_at_ == completed() ? settled_at_ : std::nullopt, out);
    if (any_done && !config_.mode.lockstep) {
      if (evaluation_.under_way()) return;
      return begin_collect(purpose::end, out);
    }
    const auto boundary = next_boundary();
    if (completed() < boundary) return grant_steps(boundary, out);
    // The losses are all there, but sums were lost with a worker: whoever began to evaluate now could not make them again.
    if (dealer_.lost_one() && !dealer_.complete()) return;
    if (!at_boundary(out)) return;
  }
}

bool coordinator::ends_here() const {
  return (config_.last_step > 0 && completed() >= config_.last_step) || (want_stop_ && completed() >= next_boundary());
}

// True: done with this boundary, go on.
bool coordinator::at_boundary(effects& out) {
  const bool last = (config_.last_step > 0 && completed() >= config_.last_step) || want_stop_;
  const bool due = config_.eval_every > 0 && completed() % config_.eval_every == 0 && completed() > config_.first_step;
  const bool done = evaluation_.made(completed());  // which is enough on the way, but not for the weights that are written
  const bool evaluates = can_evaluate() && (want_eval_ || (due && config_.mode.lockstep && !done) ||
                                            (last && !stopped_by_person_ && !evaluation_.judged(completed())));
  const bool settled = settled_at_ && *settled_at_ == completed();
  if ((want_mode_ || ((last || want_checkpoint_ || want_handover_) && !config_.mode.lockstep)) && !settled)
    return begin_settle(out), false;
  if (evaluates && !evaluation_.under_way())
    return begin_round(config_.mode.lockstep || settled ? std::optional(completed()) : std::nullopt, out), false;
  if (evaluation_.under_way()) return false;
  want_eval_ = false;
  const bool may_lag = !config_.mode.lockstep || config_.plan->rule != weight_rule::drain;
  if (last && may_lag && !staleness_.observed()) return begin_observe(out), false;
  if (last && staleness_.asking()) return false;
  if (last) return begin_collect(purpose::end, out), false;
  if (want_checkpoint_) return begin_collect(purpose::checkpoint, out), false;
  if (want_mode_) return begin_switch(out), false;
  if (want_handover_ && staleness_.asking()) return false;
  if (want_handover_) return begin_collect(purpose::handover, out), false;
  if (want_pause_) {
    if (!paused_) out.event({"paused", completed(), {}, {}});
    paused_ = true;
    return false;
  }
  hold_.reset();
  settled_at_.reset();
  if (due) evaluation_.skip_to(completed());
  return next_boundary() > completed();
}

role_status coordinator::status() const {
  role_status s;
  s.step = completed();
  s.version = ledger_.most_granted();
  if (paused_)
    s.waits_for = "resume";
  else if (settling_)
    s.waits_for = std::to_string(config_.plan->shards.size() - settling_->size()) + " shards to settle";
  else if (switching_)
    s.waits_for = std::to_string(config_.plan->workers.size() - switching_->size()) + " workers to take mode " + config_.mode.name;
  else if (collector_.under_way())
    s.waits_for = std::to_string(collector_.missing()) + " blocks of parameters";
  else if (evaluation_.under_way())
    s.waits_for = std::to_string(evaluation_.missing()) + " reports of the evaluation";
  else if (started_ && !ended_)
    s.waits_for = "losses of step " + std::to_string(completed());
  return s;
}

}  // namespace troupe
