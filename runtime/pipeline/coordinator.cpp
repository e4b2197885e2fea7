#include "runtime/pipeline/coordinator.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "runtime/graph/plan_check.hpp"

namespace troupe {
namespace {

bool reports(const graph_layer& l) { return l.maths->is_loss() || l.maths->is_metric(); }

double seconds(duration d) { return std::chrono::duration<double>(d).count(); }

}  // namespace

coordinator::coordinator(coordinator_config c) : config_(std::move(c)) {
  completed_ = evaluated_ = config_.first_step;
  const auto workers = config_.plan->ranges.size();
  done_.assign(workers, completed_);
  granted_.assign(workers, completed_);
  told_.assign(workers, 0);
  joined_at_.assign(workers, completed_);
  lives_.assign(config_.plan->workers.size(), 0);  // those of placed layers too
  if (!config_.before) return;
  const auto& b = *config_.before;
  evaluated_ = b.evaluated;
  rounds_ = b.rounds;
  accuracy_ = b.accuracy;
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
                   out.event({"error", completed_, {}, "node " + p.node + " is lost: " + p.reason + held_by(e.h, p.node)});
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
    return out.event({"error", completed_, {}, "the plan is refused: " + faults.front().text});
  }
  if (config_.before) restore(out);
  for (auto s : config_.plan->shards) out.send({to(s), start{}});
}

// --- losses

std::uint32_t coordinator::worker_of_packet(std::uint32_t packet) const {
  const auto& ranges = config_.plan->ranges;
  const auto next =
      std::upper_bound(ranges.begin(), ranges.end(), packet, [](std::uint32_t p, const packet_range& r) { return p < r.first; });
  return static_cast<std::uint32_t>(next - ranges.begin()) - 1;
}

// How many reports complete a step or a round: one per packet and stage that hosts a loss or a metric of that phase.
coordinator::gathered coordinator::expect(std::uint32_t packets, bool train) const {
  const auto counts = [&](role_id r) {
    for (auto l : (*config_.plan)[r].layers) {
      const auto& layer = config_.graph->layers[l];
      if (reports(layer) && (train ? layer.in_train : layer.in_test)) return 1u;
    }
    return 0u;
  };
  gathered g;
  if (!train && !config_.mode.lockstep)
    g.stages = counts(config_.plan->tester_stage);
  else
    for (const auto& l : config_.graph->layers) {  // each packet meets one part of it
      const auto at = std::find_if(config_.plan->roles.begin(), config_.plan->roles.end(), [&](const role_plan& r) {
        return r.kind == role_kind::stage && !r.tester && !r.layers.empty() && r.layers.front() == l.index;
      });
      if (at != config_.plan->roles.end()) g.stages += counts(at->id);
    }
  g.by_packet.resize(packets);
  g.missing = packets * g.stages;
  if (train)
    for (const auto& r : config_.plan->ranges) g.left.push_back(r.count * g.stages);
  return g;
}

coordinator::gathered& coordinator::step_of(std::uint64_t step) {
  auto at = steps_.find(step);
  if (at != steps_.end()) return at->second;
  auto& g = steps_.emplace(step, expect(config_.plan->packets, true)).first->second;
  for (std::uint32_t w = 0; w < joined_at_.size(); ++w)
    if (step < joined_at_[w]) give_up(g, w);
  return g;
}

// Reports of this worker's packets were lost with it: the step is complete without them.
void coordinator::give_up(gathered& g, std::uint32_t worker) {
  const auto range = config_.plan->ranges[worker];
  for (auto p = range.first; p < range.first + range.count; ++p) g.by_packet[p].given_up = true;
  g.missing -= g.left[worker];
  g.left[worker] = 0;
}

void coordinator::take_portion_done(std::uint32_t worker, const header& h, effects& out) {
  if (h.packets > 0) {
    if (portions_->step() == h.step) portions_->done(worker, h.packet);
    return;
  }
  // The step is over: weights of h.step are there. What has been dealt a second time will not be computed any more.
  if (portions_->step() >= h.step) return;
  portions_->finish();
  if (lost_portions_of_ != portions_->step()) return;
  give_up_done_portions();
  complete_steps(out);
}

void coordinator::send_portion(std::uint32_t worker, const portion& p, effects& out) const {
  auto meant = p;
  meant.life = lives_[worker];
  out.send({to(config_.plan->loaders[worker]), meant});
}

// Evaluation or the last collection may have begun when sums were lost with a worker. The others have begun to evaluate and wait for
// these weights: those that were restarted evaluate later.
void coordinator::deal_again(effects& out) {
  if (!portions_ || lost_portions_of_ != portions_->step()) return;
  for (const auto& d : portions_->next()) send_portion(d.worker, d.what, out);
  if (!portions_->complete()) return;
  for (auto w : std::exchange(evaluate_later_, {}))
    if (round_) send_round_to(config_.plan->loaders[w], out);
}

// A portion that is done is not dealt again, but its losses may have been lost with the worker: do not wait for them.
void coordinator::give_up_done_portions() {
  for (auto& [step, g] : steps_)
    for (std::uint32_t p = 0; p < g.by_packet.size(); ++p) {
      auto& packet = g.by_packet[p];
      const bool done = step < portions_->step() || (step == portions_->step() && portions_->has_done(p));
      if (!done || packet.given_up) continue;
      const auto lacking = g.stages - static_cast<std::uint32_t>(packet.by_stage.size());
      if (lacking == 0) continue;
      packet.given_up = true;
      g.missing -= lacking;
      g.left[worker_of_packet(p)] -= lacking;
    }
}

void coordinator::take_report(const envelope& e, effects& out) {
  const bool train = e.h.phase == static_cast<std::uint8_t>(phase::train);
  gathered* g = nullptr;
  if (train) {
    const auto granted = *std::max_element(granted_.begin(), granted_.end());
    if (e.h.step < completed_ || e.h.step >= granted || e.h.packet >= config_.plan->packets || written_) return;
    // Of a void packet: where portions are dealt, somebody else reports; else nobody will (a restarted worker is behind its gradients).
    if (config_.mode.portion > 0 && std::get<report>(e.body).valid == 0) return;
    g = &step_of(e.h.step);
  } else if (round_ && e.h.step == rounds_) {
    if (!config_.mode.lockstep) tester_is_back(e.h.incarnation, out);
    g = &*round_;
  }
  if (!g || e.h.packet >= g->by_packet.size() || index_of(e.h.src) >= config_.plan->roles.size()) return;
  auto& packet = g->by_packet[e.h.packet];
  const auto& stage = (*config_.plan)[e.h.src];
  const auto told = [&](std::uint32_t l) {
    const auto& layer = config_.graph->layers[l];
    return reports(layer) && (train ? layer.in_train : layer.in_test);
  };
  if (packet.given_up || std::none_of(stage.layers.begin(), stage.layers.end(), told)) return;
  for (const auto& [first, r] : packet.by_stage)
    if (first == stage.layers.front()) return;  // twice, or of a copy of the portion
  packet.by_stage.emplace_back(stage.layers.front(), std::get<report>(e.body));
  --g->missing;
  if (train) {
    --g->left[worker_of_packet(e.h.packet)];
    return complete_steps(out);
  }
  if (g->missing > 0) return;
  const auto done = std::move(*round_);
  round_.reset();
  round_complete(done, out);
}

void coordinator::complete_steps(effects& out) {
  for (auto first = steps_.begin(); first != steps_.end() && first->first == completed_ && first->second.missing == 0;) {
    step_complete(first->first, first->second, out);
    first = steps_.erase(first);
  }
  for (std::uint32_t w = 0; w < done_.size(); ++w) {
    done_[w] = std::max(done_[w], completed_);
    for (auto at = steps_.find(done_[w]); at != steps_.end() && at->second.left[w] == 0; at = steps_.find(done_[w])) ++done_[w];
  }
}

void coordinator::step_complete(std::uint64_t step, const gathered& g, effects& out) {
  const auto means = mean_of(g);
  double loss = 0;
  event_effect e{"step", step + 1, {}, {}};
  for (const auto& l : config_.graph->layers)
    for (const auto& [name, value] : means)
      if (name == l.name && l.maths->is_loss()) loss += l.loss_weight * value;
  const double took = seconds(now_ - last_step_at_);
  last_step_at_ = now_;
  e.values.emplace_back("loss", loss);
  e.values.emplace_back("examples_per_s", took > 0 ? static_cast<double>(config_.batch) / took : 0.0);
  out.event(std::move(e));
  completed_ = step + 1;
  if (!std::isfinite(loss)) {
    out.event({"error", completed_, {}, "the loss is not finite at step " + std::to_string(completed_)});
    ended_ = true;
  }
  if (after_step(config_.finish, facts(loss, -1))) want_stop_ = true;
}

finish_facts coordinator::facts(double loss, double accuracy) const {
  const auto epochs = static_cast<double>(completed_) / static_cast<double>(config_.steps_per_epoch);
  return {completed_, epochs, seconds(now_ - begun_), loss, accuracy};
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
      settled_at_ = completed_;
      return;
    case ready::what_of::adopted:
      if (!switching_ || r.era != static_cast<std::uint8_t>(era_) || who.kind != role_kind::worker) return;
      switching_->insert(h.src);
      if (switching_->size() == config_.plan->workers.size()) switched(out);
      return;
    case ready::what_of::joined:
      if (who.kind == role_kind::loader && config_.keeps) loader_is_back(h.src, out);
      if (who.kind == role_kind::worker && config_.plan->rule != weight_rule::drain && !config_.keeps) {
        ended_ = true;
        return out.event({"error",
                          completed_,
                          {},
                          "node " + config_.plan->nodes[who.node].name +
                              " was restarted: the versions of weights that packets under way have met are gone with it"});
      }
      if (who.kind == role_kind::tester) tester_is_back(h.incarnation, out);
      if (who.kind == role_kind::worker) {
        const bool again = h.incarnation > 0 && h.incarnation == std::exchange(lives_[who.worker], h.incarnation);
        joined(who.worker, h.step, again, out);
      }
      // It joined before the shards took the mode that all take now, or it gets no blocks and no shard can tell it (the half of placed
      // layers without parameters); what we told it was lost with it.
      if (era_ > 0 && who.kind == role_kind::worker && h.flags >> 8 != static_cast<std::uint8_t>(era_))
        out.send({adoption(h.src), adopt{config_.mode.name, config_.mode.options, static_cast<std::uint8_t>(era_)}});
      return;
    case ready::what_of::portion:
      if (who.kind == role_kind::worker && portions_) take_portion_done(who.worker, h, out);
      return;
  }
}

// `again`: its word has come twice; what it was dealt since is not lost.
void coordinator::joined(std::uint32_t worker, std::uint64_t step, bool again, effects& out) {
  if (config_.keeps) {  // nothing else is lost with it
    if (observing_ && !observing_->count(config_.plan->workers[worker])) out.send({to(config_.plan->workers[worker]), observe{}});
    if (settling_) send_settle(config_.plan->workers[worker], out);
    return;
  }
  if (worker >= joined_at_.size()) return;  // the half of a placed layer: no loader, no packets of its own
  told_[worker] = 0;
  joined_at_[worker] = std::max(joined_at_[worker], step);
  for (auto& [s, g] : steps_)
    if (s < step) give_up(g, worker);
  if (portions_ && !again) {
    // The shards may still want the step before: what it was the first to do of that, it does again.
    if (last_portions_ && last_portions_->step() >= step)
      for (const auto& p : last_portions_->done_by(worker)) send_portion(worker, p, out);
    portions_->lost(worker);
    lost_portions_of_ = portions_->step();
    give_up_done_portions();
  }
  if (granted_[worker] > config_.first_step && config_.mode.portion == 0)
    out.send({to(config_.plan->loaders[worker]), grant{granted_[worker]}});
  evaluate_later_.erase(worker);
  if (round_ && config_.mode.lockstep) {
    if (portions_ && !portions_->complete())
      evaluate_later_.insert(worker);
    else
      send_round_to(config_.plan->loaders[worker], out);
  }
  // Steps of which nobody has reported yet, and that it will not report.
  for (auto s = completed_; s < step; ++s) step_of(s);
  complete_steps(out);
  if (observing_ && !observing_->count(config_.plan->workers[worker])) out.send({to(config_.plan->workers[worker]), observe{}});
  if (settling_) send_settle(config_.plan->workers[worker], out);  // its word may have been lost with it
}

// It begins with the oldest step of which anybody may want a packet: who has them takes them for what they are, packets that come twice.
void coordinator::loader_is_back(role_id loader, effects& out) {
  const auto worker = (*config_.plan)[loader].worker;
  out.send({to(loader), resume_at{std::max(config_.first_step, config_.plan->needed_from(completed_))}});
  if (granted_[worker] > config_.first_step) out.send({to(loader), grant{granted_[worker]}});
  if (round_) send_round_to(loader, out);
}

// --- a person

void coordinator::hold() { hold_ = std::max(*std::max_element(granted_.begin(), granted_.end()), completed_); }

void coordinator::take_command(const command& c, effects& out) {
  const auto refuse = [&](std::string why) { out.event({"refused", completed_, {}, std::move(why)}); };
  if (c.name == "pause") {
    want_pause_ = true;
    hold();
  } else if (c.name == "resume") {
    want_pause_ = false;
    if (paused_) {
      out.event({"resumed", completed_, {}, {}});
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
    const auto from = *std::max_element(granted_.begin(), granted_.end());
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
  const auto refuse = [&](std::string why) { out.event({"refused", completed_, {{"handover", 1}}, std::move(why)}); };
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
  if (!found) return out.event({"refused", completed_, {}, why});
  want_mode_ = std::move(found);
  hold();
}

// --- grants and boundaries

std::uint64_t coordinator::next_boundary() const {
  std::uint64_t at = config_.last_step > 0 ? config_.last_step : ~0ull;
  if (config_.eval_every > 0 && config_.eval_packets > 0 && config_.mode.lockstep) {
    const auto due = (evaluated_ / config_.eval_every + 1) * config_.eval_every;
    at = std::min(at, due);
  }
  if (hold_) at = std::min(at, *hold_);
  if (want_stop_) at = std::min(at, *std::max_element(granted_.begin(), granted_.end()));
  return at;
}

std::uint64_t coordinator::progress() const {
  if (config_.mode.lockstep) return completed_;
  return std::accumulate(done_.begin(), done_.end(), std::uint64_t{0}) / done_.size();
}

void coordinator::grant_steps(std::uint64_t boundary, effects& out) {
  if (paused_) return;
  if (config_.mode.portion > 0) {
    const bool more = !portions_ || portions_->complete();
    const auto next = portions_ ? portions_->step() + 1 : completed_;
    if (more && next < boundary) {
      last_portions_ = std::move(portions_);
      portions_.emplace(next, config_.plan->packets, config_.mode.portion,
                        static_cast<std::uint32_t>(config_.plan->workers.size()));
      granted_.assign(granted_.size(), next + 1);
    }
    if (portions_)
      for (const auto& d : portions_->next()) send_portion(d.worker, d.what, out);
    return;
  }
  for (std::uint32_t w = 0; w < granted_.size(); ++w) {
    const auto until = std::min((config_.mode.lockstep ? completed_ : done_[w]) + config_.window, boundary);
    if (until <= granted_[w]) continue;
    granted_[w] = until;
    out.send({to(config_.plan->loaders[w]), grant{until}});
  }
  tell_boundary(boundary, out);
}

// For workers that rest: which of the steps they were granted are the last for now; 0: more will be granted. Where the first one to make its
// steps ends the job, nobody rests there: what it has must not be under way at the end.
void coordinator::tell_boundary(std::uint64_t boundary, effects& out) {
  if (!config_.mode.rests || (config_.any_worker_ends && boundary == config_.last_step)) return;
  for (std::uint32_t w = 0; w < granted_.size(); ++w) {
    const auto until = granted_[w] >= boundary ? boundary : 0;
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
  while (started_ && !ended_ && !collect_ && !settling_ && !switching_) {
    if (round_ && (config_.mode.lockstep || written_)) return;
    if (written_) return write(out);
    const bool any_done =
        config_.any_worker_ends && config_.last_step > 0 && *std::max_element(done_.begin(), done_.end()) >= config_.last_step;
    const bool last_round_comes = (any_done || ends_here()) && !stopped_by_person_;
    if (!config_.mode.lockstep && !round_ && can_evaluate() && config_.eval_every > 0 && !last_round_comes &&
        progress() / config_.eval_every > evaluated_ / config_.eval_every)
      want_eval_ = true;
    if (!config_.mode.lockstep && !round_ && want_eval_) begin_round(out);
    if (any_done && !config_.mode.lockstep) {
      if (round_) return;
      return begin_collect(true, out);
    }
    const auto boundary = next_boundary();
    if (completed_ < boundary) return grant_steps(boundary, out);
    // The losses are all there, but sums were lost with a worker: whoever began to evaluate now could not make them again.
    if (portions_ && lost_portions_of_ == portions_->step() && !portions_->complete()) return;
    if (!at_boundary(out)) return;
  }
}

bool coordinator::ends_here() const {
  return (config_.last_step > 0 && completed_ >= config_.last_step) || (want_stop_ && completed_ >= next_boundary());
}

// True: done with this boundary, go on.
bool coordinator::at_boundary(effects& out) {
  const bool last = (config_.last_step > 0 && completed_ >= config_.last_step) || want_stop_;
  const bool due = config_.eval_every > 0 && completed_ % config_.eval_every == 0 && completed_ > config_.first_step;
  const bool done =
      evaluated_ == completed_ && rounds_ > 0;  // which is enough on the way, but not for the weights that are written
  const bool evaluates = can_evaluate() && (want_eval_ || (due && config_.mode.lockstep && !done) ||
                                            (last && !stopped_by_person_ && judged_ != completed_));
  const bool settled = settled_at_ && *settled_at_ == completed_;
  if ((want_mode_ || ((last || want_checkpoint_ || want_handover_) && !config_.mode.lockstep)) && !settled)
    return begin_settle(out), false;
  if (evaluates && !round_) return begin_round(out), false;
  if (round_) return false;
  want_eval_ = false;
  const bool may_lag = !config_.mode.lockstep || config_.plan->rule != weight_rule::drain;
  if (last && may_lag && !observed_) return begin_observe(out), false;
  if (last && observing_) return false;
  if (last) return begin_collect(true, out), false;
  if (want_checkpoint_) return begin_collect(false, out), false;
  if (want_mode_) return begin_switch(out), false;
  if (want_handover_ && observing_) return false;
  if (want_handover_) return begin_collect(false, out), false;
  if (want_pause_) {
    if (!paused_) out.event({"paused", completed_, {}, {}});
    paused_ = true;
    return false;
  }
  hold_.reset();
  settled_at_.reset();
  evaluated_ = std::max(evaluated_, due ? completed_ : evaluated_);
  return next_boundary() > completed_;
}

role_status coordinator::status() const {
  role_status s;
  s.step = completed_;
  s.version = *std::max_element(granted_.begin(), granted_.end());
  if (paused_)
    s.waits_for = "resume";
  else if (settling_)
    s.waits_for = std::to_string(config_.plan->shards.size() - settling_->size()) + " shards to settle";
  else if (switching_)
    s.waits_for = std::to_string(config_.plan->workers.size() - switching_->size()) + " workers to take mode " + config_.mode.name;
  else if (collect_)
    s.waits_for = std::to_string(collect_->missing) + " blocks of parameters";
  else if (round_)
    s.waits_for = std::to_string(round_->missing) + " reports of the evaluation";
  else if (started_ && !ended_)
    s.waits_for = "losses of step " + std::to_string(completed_);
  return s;
}

}  // namespace troupe
