#include "runtime/pipeline/coordinator.hpp"

#include <algorithm>
#include <cmath>

#include "ops/device.hpp"

namespace troupe {
namespace {

bool reports(const graph_layer& l) { return l.maths->is_loss() || l.maths->is_metric(); }

double seconds(duration d) { return std::chrono::duration<double>(d).count(); }

}  // namespace

coordinator::coordinator(coordinator_config c) : config_(std::move(c)) { completed_ = granted_ = evaluated_ = config_.first_step; }

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
                 [&](const start&) {
                   if (started_) return;
                   started_ = true;
                   begun_ = last_step_at_ = now;
                   for (auto s : config_.plan->shards) out.send({to(s), start{}});
                 },
                 [&](const report&) { take_report(e, out); },
                 [&](const state&) { take_state(e, out); },
                 [&](const command& c) { take_command(c, out); },
                 [&](const finished&) { collected(out); },
                 [&](const peer_down& p) {
                   ended_ = true;
                   out.event({"error", completed_, {}, "node " + p.node + " is lost: " + p.reason});
                 },
                 [&](const auto&) {},
             },
             e.body);
  advance(out);
}

// How many reports complete a step or a round: one per packet and stage that hosts a loss or a metric of that phase.
coordinator::gathered coordinator::expect(std::uint32_t packets, bool train) const {
  std::uint32_t stages = 0;
  for (auto r : config_.plan->stages.at(0)) {
    bool any = false;
    for (auto l : (*config_.plan)[r].layers) {
      const auto& layer = config_.graph->layers[l];
      any = any || (reports(layer) && (train ? layer.in_train : layer.in_test));
    }
    stages += any ? 1 : 0;
  }
  gathered g;
  g.by_packet.resize(packets);
  g.missing = packets * stages;
  return g;
}

void coordinator::take_report(const envelope& e, effects& out) {
  const bool train = e.h.phase == static_cast<std::uint8_t>(phase::train);
  gathered* g = nullptr;
  if (train) {
    if (e.h.step < completed_) return;
    auto at = steps_.find(e.h.step);
    if (at == steps_.end()) at = steps_.emplace(e.h.step, expect(config_.plan->packets, true)).first;
    g = &at->second;
  } else if (round_ && e.h.step == rounds_) {
    g = &*round_;
  }
  if (!g || e.h.packet >= g->by_packet.size() || g->missing == 0) return;
  g->by_packet[e.h.packet].push_back(std::get<report>(e.body));
  if (--g->missing > 0) return;
  if (!train) {
    auto done = std::move(*round_);
    round_.reset();
    return round_complete(done, out);
  }
  for (auto first = steps_.begin(); first != steps_.end() && first->first == completed_ && first->second.missing == 0;) {
    step_complete(first->first, first->second, out);
    first = steps_.erase(first);
  }
}

// Means over the examples, taken in packet order; scalars of a packet in the order of their names' layers.
coordinator::scalars coordinator::mean_of(const gathered& g) const {
  scalars means;
  for (const auto& l : config_.graph->layers) {
    double sum = 0, weight = 0;
    for (const auto& packet : g.by_packet)
      for (const auto& r : packet)
        for (const auto& [name, value] : r.values)
          if (name == l.name) {
            sum += value * r.valid;
            weight += r.valid;
          }
    if (weight > 0) means.emplace_back(l.name, sum / weight);
  }
  return means;
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

void coordinator::begin_round(effects& out) {
  ++rounds_;
  evaluated_ = completed_;
  want_eval_ = false;
  round_ = expect(config_.eval_packets, false);
  for (auto l : config_.plan->loaders) {
    auto h = to(l);
    h.version = completed_;
    out.send({h, evaluate{rounds_}});
  }
}

void coordinator::round_complete(const gathered& g, effects& out) {
  event_effect e{"eval", completed_, {}, {}};
  double loss = 0;
  bool have_accuracy = false;
  for (const auto& [name, value] : mean_of(g)) {
    for (const auto& l : config_.graph->layers) {
      if (l.name != name) continue;
      if (l.maths->is_loss()) loss += l.loss_weight * value;
      if (l.maths->is_metric() && !have_accuracy) {
        have_accuracy = true;
        accuracy_ = value;
      } else if (l.maths->is_metric()) {
        e.values.emplace_back(name, value);
      }
    }
  }
  if (have_accuracy) e.values.insert(e.values.begin(), {"accuracy", accuracy_});
  e.values.emplace_back("loss", loss);
  out.event(std::move(e));
  last_step_at_ = now_;
  if (after_evaluation(config_.finish, facts(loss, accuracy_))) want_stop_ = true;
}

void coordinator::take_command(const command& c, effects& out) {
  auto hold = [&] { hold_ = std::max(granted_, completed_); };
  if (c.name == "pause") {
    want_pause_ = true;
    hold();
  } else if (c.name == "resume") {
    want_pause_ = false;
    if (paused_) out.event({"resumed", completed_, {}, {}});
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
    want_eval_ = config_.eval_packets > 0;
    hold();
  } else if (c.name == "set") {
    for (auto s : config_.plan->shards) out.send({to(s), set_value{c.key, c.value, granted_}});
    out.event({"set", granted_, {{c.key, c.value}}, {}});
  } else {
    out.event({"refused", completed_, {}, "unknown command '" + c.name + "'"});
  }
}

std::uint64_t coordinator::next_boundary() const {
  std::uint64_t at = config_.last_step > 0 ? config_.last_step : ~0ull;
  if (config_.eval_every > 0 && config_.eval_packets > 0) {
    const auto due = (evaluated_ / config_.eval_every + 1) * config_.eval_every;
    at = std::min(at, due);
  }
  if (hold_) at = std::min(at, *hold_);
  if (want_stop_) at = std::min(at, granted_);
  return at;
}

// Grants what may run; at a boundary does what is due there, one thing at a time.
void coordinator::advance(effects& out) {
  if (!started_ || ended_ || round_ || collect_) return;
  const auto boundary = next_boundary();
  if (completed_ < boundary) {
    const auto until = std::min(completed_ + config_.window, boundary);
    if (until > granted_ && !paused_) {
      granted_ = until;
      for (auto l : config_.plan->loaders) out.send({to(l), grant{granted_}});
    }
    return;
  }
  const bool last = (config_.last_step > 0 && completed_ >= config_.last_step) || want_stop_;
  const bool due = config_.eval_every > 0 && completed_ % config_.eval_every == 0 && completed_ > config_.first_step;
  const bool fresh = evaluated_ == completed_ && rounds_ > 0;
  if (config_.eval_packets > 0 && (want_eval_ || ((due || (last && !stopped_by_person_)) && !fresh))) return begin_round(out);
  want_eval_ = false;
  if (last) return begin_collect(true, out);
  if (want_checkpoint_) return begin_collect(false, out);
  if (want_pause_) {
    if (!paused_) out.event({"paused", completed_, {}, {}});
    paused_ = true;
    return;
  }
  hold_.reset();
  evaluated_ = std::max(evaluated_, due ? completed_ : evaluated_);
  if (next_boundary() > completed_) advance(out);
}

void coordinator::begin_collect(bool final, effects& out) {
  want_checkpoint_ = false;
  collect_.emplace();
  collect_->request = ++requests_;
  collect_->final = final;
  collect_->blocks.resize(config_.plan->blocks.size());
  collect_->missing = static_cast<std::uint32_t>(config_.plan->blocks.size());
  for (auto s : config_.plan->shards) {
    auto h = to(s);
    h.version = completed_;
    out.send({h, collect{requests_, true}});
  }
  if (collect_->missing == 0) out.run([](job_context&) {}, {}, requests_);
}

void coordinator::take_state(const envelope& e, effects& out) {
  const auto& s = std::get<state>(e.body);
  if (!collect_ || s.request != collect_->request || s.block >= collect_->blocks.size() || collect_->blocks[s.block]) return;
  collect_->blocks[s.block] = s;
  if (--collect_->missing > 0) return;
  // Every block is here: put parameters together again, in layer order.
  auto& c = *collect_;
  for (const auto& p : config_.graph->params) {
    c.weights.emplace_back(p.full_name, tensor{});
    for (const auto& b : config_.plan->blocks)
      if (&config_.graph->params[b.param] == &p && b.begin == 0)
        for (std::size_t k = 0; k < c.blocks[b.id]->rule.size(); ++k)
          c.rule.emplace_back(p.full_name + "@" + config_.rule_states.at(k), tensor{});
  }
  out.run(
      [this](job_context& ctx) {
        auto& at = *collect_;
        std::size_t rule_index = 0;
        for (std::size_t p = 0; p < config_.graph->params.size(); ++p) {
          const auto& spec = config_.graph->params[p].spec;
          std::vector<tensor*> into{&at.weights[p].second};
          while (rule_index < at.rule.size() && at.rule[rule_index].first.starts_with(at.weights[p].first + "@"))
            into.push_back(&at.rule[rule_index++].second);
          for (const auto& b : config_.plan->blocks) {
            if (b.param != p) continue;
            const auto& got = *at.blocks[b.id];
            for (std::size_t k = 0; k < into.size(); ++k) {
              const auto& from = k == 0 ? got.value : got.rule[k - 1];
              if (!*into[k]) *into[k] = tensor::allocate(ctx.dev, spec.dims, from.type());
              auto part = into[k]->slice(b.begin, {b.count});
              ctx.dev.copy(from, part);
            }
          }
        }
      },
      {0, 8.0 * static_cast<double>(config_.graph->parameter_count), "collect"}, requests_);
}

void coordinator::collected(effects& out) {
  if (!collect_) return;
  auto c = std::move(*collect_);
  collect_.reset();
  auto both = c.weights;
  both.insert(both.end(), c.rule.begin(), c.rule.end());
  if (!c.final || stopped_by_person_) {
    out.store({"checkpoint", completed_, both});
    out.event({"checkpoint", completed_, {}, {}});
  }
  last_step_at_ = now_;
  if (!c.final) return;
  out.store({"weights", completed_, c.weights});
  end(out);
}

void coordinator::end(effects& out) {
  ended_ = true;
  event_effect e{"done", completed_, {}, stopped_by_person_ ? "stopped" : "finished"};
  e.values.emplace_back("steps", static_cast<double>(completed_));
  e.values.emplace_back("epochs", static_cast<double>(completed_) / static_cast<double>(config_.steps_per_epoch));
  if (accuracy_ >= 0) e.values.emplace_back("test_accuracy", accuracy_);
  e.values.emplace_back("seconds", seconds(now_ - begun_));
  e.values.emplace_back("packets", config_.plan->packets);
  out.event(std::move(e));
}

role_status coordinator::status() const {
  role_status s;
  s.step = completed_;
  s.version = granted_;
  if (paused_)
    s.waits_for = "resume";
  else if (round_)
    s.waits_for = std::to_string(round_->missing) + " reports of the evaluation";
  else if (collect_)
    s.waits_for = std::to_string(collect_->missing) + " blocks of parameters";
  else if (started_ && !ended_)
    s.waits_for = "losses of step " + std::to_string(completed_);
  return s;
}

}  // namespace troupe
