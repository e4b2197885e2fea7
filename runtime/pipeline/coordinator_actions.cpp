// What the coordinator does at a boundary (settle, collect, switch the mode, end), and evaluation.
// size: what happens at one boundary, step by step; it becomes values of its own with the block collector
#include <algorithm>

#include "ops/device.hpp"
#include "runtime/graph/block_copy.hpp"
#include "runtime/messages/fits.hpp"
#include "runtime/pipeline/coordinator.hpp"
#include "runtime/pipeline/staleness.hpp"

namespace troupe {
namespace {

double seconds(duration d) { return std::chrono::duration<double>(d).count(); }

}  // namespace

// --- evaluation

// Means over the examples, taken in packet order; scalars of a packet in the order of their names' layers.
coordinator::scalars coordinator::mean_of(const gathered& g) const {
  scalars means;
  for (const auto& l : config_.graph->layers) {
    double sum = 0, weight = 0;
    for (const auto& packet : g.by_packet)
      for (const auto& [stage, r] : packet.by_stage)
        for (const auto& [name, value] : r.values)
          if (name == l.name) {
            sum += value * r.valid;
            weight += r.valid;
          }
    if (weight > 0) means.emplace_back(l.name, sum / weight);
  }
  return means;
}

// In lockstep all workers evaluate with the weights they have; else the tester pulls weights and nobody stops.
void coordinator::begin_round(effects& out) {
  ++rounds_;
  evaluated_ = progress();
  want_eval_ = false;
  const bool at_rest = config_.mode.lockstep || settled_at_ == completed_;
  judging_ = at_rest ? std::optional(completed_) : std::nullopt;
  round_ = expect(config_.eval_packets, false);
  send_round(out);
}

// Where the first worker to make its steps ends the job, the others are still on their way when the weights are collected: what is
// evaluated is what will be written, and it is the coordinator that has it.
void coordinator::begin_round_of_written(effects& out) {
  ++rounds_;
  evaluated_ = progress();
  judging_ = completed_;
  round_ = expect(config_.eval_packets, false);
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
  if (config_.mode.lockstep) h.clock = lives_[(*config_.plan)[loader].worker];
  out.send({h, evaluate{rounds_}});
}

// By its own word or by what it reports, whichever comes first. What its former life has reported of the round was of other weights.
void coordinator::tester_is_back(std::uint32_t incarnation, effects& out) {
  if (incarnation <= tester_life_) return;
  tester_life_ = incarnation;
  if (!round_ || config_.mode.lockstep) return;
  round_ = expect(config_.eval_packets, false);
  send_round(out);  // ignored where it had been heard
}

void coordinator::round_complete(const gathered& g, effects& out) {
  event_effect e{"eval", evaluated_, {}, {}};
  double loss = 0;
  bool have_accuracy = false;
  for (const auto& [name, value] : mean_of(g)) {
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
  if (after_evaluation(config_.finish, facts(loss, accuracy_))) want_stop_ = true;
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
  h.step = completed_;
  h.flags = static_cast<std::uint16_t>((era_ & 0xff) << 8);
  out.send({h, settle{}});
}

void coordinator::begin_switch(effects& out) {
  config_.mode = std::move(*want_mode_);
  want_mode_.reset();
  switched_at_ = completed_;
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
  out.event({"mode", completed_, {}, mode_text()});
  last_step_at_ = now_;
  evaluated_ = std::max(evaluated_, completed_);
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
  event_effect e{"staleness", completed_, {}, {}};
  for (const auto& p : config_.graph->params) {
    const auto at = histograms_.find(p.full_name);
    if (at == histograms_.end()) continue;
    for (std::size_t i = 0; i < at->second.size(); ++i)
      if (at->second[i] > 0) e.values.emplace_back(staleness_key(p.full_name, i), static_cast<double>(at->second[i]));
  }
  out.event(std::move(e));
}

// --- collecting

void coordinator::begin_collect(bool final, effects& out) {
  collect_ = std::make_shared<collecting>();
  collect_->handover = !final && !want_checkpoint_;
  want_checkpoint_ = false;
  collect_->request = ++requests_;
  collect_->final = final;
  // What is carried is of use to who goes on.
  if (!final || stopped_by_person_) collect_->pieces = carried_pieces(*config_.graph, *config_.plan);
  const auto all = config_.plan->blocks.size() + collect_->pieces.size();
  collect_->blocks.resize(all);
  collect_->updates.resize(all);
  collect_->missing = static_cast<std::uint32_t>(all);
  std::set<role_id> asked;
  for (const auto& piece : collect_->pieces)
    if (asked.insert(piece.stage).second) out.send({to(piece.stage), collect{requests_, true}});
  for (auto s : config_.plan->shards) {
    if ((*config_.plan)[s].group != 0) continue;  // the first server group is the master of the others
    auto h = to(s);
    h.version = config_.mode.lockstep ? completed_ : 0;
    out.send({h, collect{requests_, true}});
  }
  if (collect_->missing == 0) out.run([](task_context&) {}, {}, requests_);
}

void coordinator::take_state(const envelope& e, effects& out) {
  const auto& s = std::get<state>(e.body);
  if (!collect_ || s.request != collect_->request || s.block >= collect_->blocks.size() || collect_->blocks[s.block]) return;
  const auto& blocks = config_.plan->blocks;
  if (s.block < blocks.size() &&
      (!holds(s.value, blocks[s.block].count, config_.type) || s.rule.size() != config_.rule_states.size() ||
       !all_hold(s.rule, blocks[s.block].count, config_.type)))
    return;
  collect_->blocks[s.block] = s;
  collect_->updates[s.block] = e.h.step;
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
  name_pieces(c);
  out.run(join_blocks(), {0, 8.0 * static_cast<double>(config_.graph->parameter_count), "collect"}, requests_);
}

// Nothing when some lanes have carried nothing yet.
void coordinator::name_pieces(collecting& c) const {
  for (const auto& piece : c.pieces)
    if (!c.blocks[piece.block]->value) return c.pieces.clear();
  for (const auto& l : config_.graph->layers)
    for (std::size_t k = 0; !c.pieces.empty() && k < l.carries.size(); ++k) c.carried.emplace_back(carried_name(l, k), tensor{});
}

void coordinator::join_pieces(const model_graph& g, const job_plan& plan, collecting& c, device& d) {
  std::size_t index = 0;
  for (const auto& l : g.layers)
    for (std::size_t k = 0; !c.pieces.empty() && k < l.carries.size(); ++k) {
      auto& whole = c.carried[index++].second;
      for (const auto& piece : c.pieces) {
        if (piece.layer != l.index) continue;
        const auto& got = *c.blocks[piece.block];
        const auto& from = k == 0 ? got.value : got.rule.at(k - 1);
        if (!whole) whole = tensor::allocate(d, carried_shape(l, k, plan.packets), from.type());
        auto part = carried_lanes(whole, l.carries[k].dims, piece.packet);
        d.copy(from, part);
      }
    }
}

task_work coordinator::join_blocks() const {
  return [graph = config_.graph, plan = config_.plan, all_blocks = collect_](task_context& ctx) {
    auto& at = *all_blocks;
    join_pieces(*graph, *plan, at, ctx.dev);
    std::size_t rule_index = 0;
    for (std::size_t p = 0; p < graph->params.size(); ++p) {
      const auto& spec = graph->params[p].spec;
      std::vector<tensor*> into{&at.weights[p].second};
      while (rule_index < at.rule.size() && at.rule[rule_index].first.starts_with(at.weights[p].first + "@"))
        into.push_back(&at.rule[rule_index++].second);
      for (const auto& b : plan->blocks) {
        if (b.param != p) continue;
        const auto& got = *at.blocks[b.id];
        for (std::size_t k = 0; k < into.size(); ++k) {
          const auto& from = k == 0 ? got.value : got.rule[k - 1];
          if (b.count == spec.dims.count() && b.run == 0) {  // as the shard has it: no second copy of everything
            *into[k] = from.reshaped(spec.dims);
            continue;
          }
          if (!*into[k]) *into[k] = tensor::allocate(ctx.dev, spec.dims, from.type());
          copy_block_in(ctx.dev, from, b, *into[k]);
        }
      }
    }
    for (auto* all : {&at.weights, &at.rule, &at.carried})
      for (auto& [name, value] : *all) value = brought_home(ctx.dev, value);
  };
}

void coordinator::collected(effects& out) {
  if (!collect_) return;
  auto c = std::move(*collect_);
  collect_.reset();
  auto both = c.weights;
  both.insert(both.end(), c.rule.begin(), c.rule.end());
  both.insert(both.end(), c.carried.begin(), c.carried.end());
  if (c.handover) return hand_over(std::move(c), out);
  if (!c.final || stopped_by_person_) {
    out.store({"checkpoint", completed_, both});
    out.event({"checkpoint", completed_, {}, {}});
  }
  last_step_at_ = now_;
  if (!c.final) return;
  const bool settled = config_.mode.lockstep || settled_at_ == completed_;
  written_ = std::move(c);
  if (!settled && can_evaluate() && !stopped_by_person_) return begin_round_of_written(out);
  write(out);
}

void coordinator::write(effects& out) {
  out.store({"weights", completed_, std::move(written_->weights)});
  end(out);
}

// --- from one plan to the next

void coordinator::hand_over(collecting c, effects& out) {
  auto h = std::make_shared<handover>();
  h->step = completed_;
  h->evaluated = evaluated_;
  h->rounds = rounds_;
  h->accuracy = accuracy_;
  h->seconds = seconds(now_ - begun_);
  h->paused = paused_ || want_pause_;
  h->settings = settings_;
  for (const auto& b : config_.plan->blocks) {
    auto& u = h->updates[config_.graph->params[b.param].full_name];
    u = std::max(u, c.updates[b.id]);
  }
  h->finish = std::make_shared<finish_conditions>(std::move(config_.finish));
  auto named = std::move(c.weights);
  for (auto* more : {&c.rule, &c.carried})
    for (auto& r : *more) named.push_back(std::move(r));
  out.store({"handover", completed_, std::move(named), std::move(h)});
  ended_ = true;
}

// The blocks of this plan, cut from the parameters as the last one left them.
void coordinator::restore(effects& out) {
  auto& b = *config_.before;
  begun_ -= std::chrono::duration_cast<duration>(std::chrono::duration<double>(b.seconds));
  for (const auto& piece : carried_pieces(*config_.graph, *config_.plan)) {
    auto have = carried_from(b.named, config_.graph->layers[piece.layer], piece.packet);
    restore_state s{piece.block, have.empty() ? tensor{} : have[0], {}};
    if (have.size() > 1) s.rule.assign(have.begin() + 1, have.end());
    out.send({to(piece.stage), std::move(s)});
  }
  const std::map<std::string, tensor> named(b.named.begin(), b.named.end());
  b.named.clear();
  cutting_ = std::make_shared<std::vector<cut_block>>();
  for (const auto& block : config_.plan->blocks) {
    const auto& name = config_.graph->params[block.param].full_name;
    cut_block cut{to(block.shard), {block.id, {}, {}}, &block, {named.at(name)}};
    const auto part = [&](const tensor& whole) {
      return block.run == 0 ? whole.slice(block.begin, {block.count}) : tensor::declare({block.count}, whole.type());
    };
    cut.s.value = part(cut.whole[0]);
    for (const auto& state : config_.rule_states)
      if (const auto at = named.find(name + "@" + state); at != named.end()) {
        cut.whole.push_back(at->second);
        cut.s.rule.push_back(part(at->second));
      }
    cut.h.version = b.step;
    const auto updates = b.updates.find(name);
    cut.h.step = updates == b.updates.end() ? b.step : updates->second;
    if (block.run == 0)
      out.send({cut.h, std::move(cut.s)});
    else
      cutting_->push_back(std::move(cut));
  }
  if (!cutting_->empty()) out.run(cut_blocks(), {0, 8.0 * static_cast<double>(config_.graph->parameter_count), "cut"}, cut_token);
  for (const auto& s : settings_) {
    for (auto r : config_.plan->shards) out.send({to(r), s});
    for (auto r : config_.plan->workers) out.send({to(r), s});
  }
}

// Columns of a parameter have to be picked out of it.
task_work coordinator::cut_blocks() const {
  return [cuts = cutting_](task_context& c) {
    for (auto& cut : *cuts)
      for (std::size_t k = 0; k < cut.whole.size(); ++k) {
        auto& part = k == 0 ? cut.s.value : cut.s.rule[k - 1];
        part.back(c.dev);
        copy_block_out(c.dev, cut.whole[k], *cut.block, part);
      }
  };
}

void coordinator::send_cut(effects& out) {
  const auto cuts = std::exchange(cutting_, nullptr);
  for (auto& cut : *cuts) out.send({cut.h, std::move(cut.s)});
}

void coordinator::end(effects& out) {
  ended_ = true;
  if (want_mode_)
    out.event({"refused",
               completed_,
               {},
               "the job ends at step " + std::to_string(completed_) + ", before it takes mode '" + want_mode_->name + "'"});
  event_effect e{"done", completed_, {}, stopped_by_person_ ? "stopped" : "finished"};
  e.values.emplace_back("steps", static_cast<double>(completed_));
  e.values.emplace_back("epochs", static_cast<double>(completed_) / static_cast<double>(config_.steps_per_epoch));
  if (accuracy_ >= 0 && judged_ == completed_) e.values.emplace_back("test_accuracy", accuracy_);
  e.values.emplace_back("seconds", seconds(now_ - begun_));
  e.values.emplace_back("packets", config_.plan->packets);
  out.event(std::move(e));
}

}  // namespace troupe
