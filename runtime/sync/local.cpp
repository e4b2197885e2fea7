#include "runtime/sync/local.hpp"

#include <algorithm>

#include "ops/device.hpp"
#include "runtime/reduce/fold.hpp"
#include "runtime/sync/looking.hpp"

namespace troupe {

local_worker::local_worker(sync_config c)
    : worker_sync(std::move(c), sums::whole),
      replicas_(config_.graph->params.size()),
      busy_(layers_.size(), false),
      first_(layers_.size()),
      begin_at_(config_.first_step),
      questions_(layers_.size()),
      deferred_(layers_.size()),
      last_merge_(layers_.size(), config_.first_step) {}

// --- first values

void local_worker::on_state(const header&, const state& s, effects& out) {
  const auto layer = config_.graph->params[block_at(s.block).param].layer;
  if (layers_[layer].begun || busy_[layer]) return drop(drop_reason::repeated);
  first_[layer][s.block] = s;
  if (first_[layer].size() == layers_[layer].blocks.size()) begin_layer(layer, out);
}

void local_worker::begin_layer(std::uint32_t layer, effects& out) {
  const auto states = config_.update->states().size();
  const auto from = std::make_shared<std::map<std::uint32_t, state>>(std::move(first_[layer]));
  first_[layer].clear();
  busy_[layer] = true;
  const auto& params = layer_at(layer).params;
  const auto made = std::make_shared<std::vector<replica>>();
  for (auto p : params) {
    const auto& dims = config_.graph->params[p].spec.dims;
    made->push_back({tensor::declare(dims, config_.type), tensors(states, tensor::declare(dims, config_.type)),
                     from->at(blocks_of(p).front()).updates});
  }
  task_cost cost{0, 0, "begin"};
  for (const auto& [id, s] : *from) cost.bytes += 2.0 * static_cast<double>(s.value.bytes() * (1 + s.rule.size()));
  tasks_.run(
      [plan = config_.plan, params, from, made](task_context& c) {
        for (const auto& [id, s] : *from) {
          const auto& b = plan->blocks[id];
          auto& to = (*made)[static_cast<std::size_t>(std::find(params.begin(), params.end(), b.param) - params.begin())];
          auto put = [&](tensor& whole, const tensor& part) {
            whole.back(c.dev);
            auto slice = whole.slice(b.begin, {b.count});
            c.dev.copy(part, slice);
          };
          put(to.value, s.value);
          for (std::size_t k = 0; k < to.rule.size() && k < s.rule.size(); ++k) put(to.rule[k], s.rule[k]);
        }
      },
      cost,
      [this, layer, params, made](effects& more) {
        for (std::size_t i = 0; i < params.size(); ++i) replicas_[params[i]] = std::move((*made)[i]);
        busy_[layer] = false;
        exchanged(layer);
        last_merge_[layer] = begin_at_;
        on_begun(layer, begin_at_, more);
      },
      out);
}

// --- a step

tensors local_worker::values_of(std::uint32_t layer) const {
  tensors list;
  for (auto p : layer_at(layer).params) list.push_back(replicas_[p].value);
  return list;
}

// --- when to exchange

void local_worker::ask_due(std::uint32_t layer, std::uint64_t done, std::uint64_t habit, effects& out) {
  if (!config_.when) return on_due(layer, done, done % habit == 0, out);
  if (decided_ == done) return on_due(layer, done, due_, out);
  if (!config_.when->needs_drift()) {
    decide(done, 0);
    return on_due(layer, done, due_, out);
  }
  asking_.push_back(layer);
  const auto with_weights = std::count_if(layers_.begin(), layers_.end(), [](const auto& l) { return !l.blocks.empty(); });
  if (static_cast<std::ptrdiff_t>(asking_.size()) == with_weights) measure_drift(done, out);
}

void local_worker::decide(std::uint64_t done, double drift) {
  decided_ = done;
  due_ = config_.when->due({done, last_exchange_, drift});
  if (due_) last_exchange_ = done;
}

void local_worker::measure_drift(std::uint64_t done, effects& out) {
  auto squares = std::make_shared<std::vector<double>>();  // per parameter: of w - u, then of u
  task_cost cost{0, 0, "drift"};
  tensors now;
  for (const auto& r : replicas_) {
    now.push_back(r.value);
    cost.bytes += 3.0 * static_cast<double>(r.value.bytes());
  }
  tasks_.run(
      [now, base = base_, squares](task_context& c) {
        const auto add = [&](const tensor& t) {
          tensor sum = tensor::allocate(c.dev, shape{1}, dtype::f64);
          c.dev.sum_squares(t, sum);
          squares->push_back(0);
          c.dev.later(sum, [squares, i = squares->size() - 1](double v) { (*squares)[i] = v; });
        };
        for (std::size_t p = 0; p < now.size(); ++p) {
          auto d = tensor::allocate(c.dev, now[p].dims(), now[p].type());
          c.dev.apply(binary::subtract, now[p], base[p], d);
          add(d);
          add(base[p]);
        }
      },
      cost,
      [this, done, squares](effects& more) {
        double moved = 0, all = 0;
        for (std::size_t i = 0; i < squares->size(); i += 2) moved += (*squares)[i], all += (*squares)[i + 1];
        decide(done, drift_of(moved, all));
        for (auto layer : std::exchange(asking_, {})) on_due(layer, done, due_, more);
      },
      out);
}

void local_worker::exchanged(std::uint32_t layer) {
  if (!config_.when || !config_.when->needs_drift()) return;
  base_.resize(replicas_.size());
  for (auto p : layer_at(layer).params) base_[p] = replicas_[p].value;
}

void local_worker::go_on(std::uint32_t layer, std::uint64_t version, effects& out) {
  count_read(layer, version - last_merge_[layer]);
  hand(layer, version, values_of(layer), out);
}

void local_worker::release(std::uint32_t layer, effects& out) {
  busy_[layer] = false;
  on_free(layer, out);
  if (auto next = std::exchange(deferred_[layer], std::nullopt)) return take_step(layer, next->first, next->second, out);
  on_idle(layer, out);
}

void local_worker::on_sum(std::uint32_t layer, std::uint64_t step, tree_node, const sum_ptr& sum, effects& out) {
  if (busy_[layer])
    deferred_[layer] = {step, sum};
  else
    take_step(layer, step, sum, out);
}

void local_worker::take_step(std::uint32_t layer, std::uint64_t step, const sum_ptr& sum, effects& out) {
  if (!sum) return on_stepped(layer, step, out);  // skipped: not finite
  const bool looks = config_.max_skipped == 0;    // else check_sum() has checked it
  const auto bad = std::make_shared<std::vector<std::uint32_t>>();
  auto next = std::make_shared<std::vector<replica>>();
  std::vector<replica> was;
  std::vector<rule_step> ins;
  task_cost cost{0, 0, "update"};
  for (auto p : layer_at(layer).params) {
    const auto& r = replicas_[p];
    cost.bytes += static_cast<double>(r.value.bytes() * (3 + 2 * r.rule.size()));
    next->push_back({tensor::declare(r.value.dims(), config_.type), r.rule, r.updates + 1});
    was.push_back(r);
    ins.push_back(rule_step_at(config_, p, step));
    ins.back().grad_scale = 1.0 / packets_here();
    ins.back().updates = r.updates;
  }
  busy_[layer] = true;
  tasks_.run(
      [graph = config_.graph, rule = stepping(), params = layer_at(layer).params, was = std::move(was), ins = std::move(ins), sum,
       packets = packets_here(), next, looks, bad](task_context& c) {
        if (looks) look_at_sum(c.dev, params, *sum, bad);
        if (!bad->empty()) return;
        for (std::size_t i = 0; i < params.size(); ++i) {
          if (!(*sum)[i]) continue;
          const auto& r = was[i];
          auto& to = (*next)[i];
          if (graph->params[params[i]].frozen) {
            to = {r.value, r.rule, to.updates};
            continue;
          }
          if (const auto& spec = graph->params[params[i]].spec; !spec.trainable) {
            fold_statistics(c.dev, spec, packets, r.value, (*sum)[i], to.value);
            continue;
          }
          to.value.back(c.dev);
          for (auto& t : to.rule)
            if (t.frozen() || t.space() != c.dev.space()) t = tensor::allocate(c.dev, t.dims(), t.type());
          rule->update(c.dev, ins[i], r.value, (*sum)[i], to.value, r.rule, to.rule);
        }
      },
      cost,
      [this, layer, step, next, bad](effects& more) {
        if (!bad->empty()) return tell_not_finite(layer, step, *bad, more);  // the coordinator ends the job
        const auto& params = layer_at(layer).params;
        for (std::size_t i = 0; i < params.size(); ++i) replicas_[params[i]] = std::move((*next)[i]);
        release(layer, more);
        on_stepped(layer, step, more);
      },
      out);
}

state local_worker::copy_of(std::uint32_t block, double mass) const {
  const auto& b = block_at(block);
  const auto& r = replicas_[b.param];
  state s{0, block, r.value.slice(b.begin, {b.count}), {}, r.updates};
  for (const auto& t : r.rule) s.rule.push_back(t.slice(b.begin, {b.count}));
  s.mass = mass;
  return s;
}

void local_worker::contribute(double mass, effects& out) {
  for (std::uint32_t p = 0; p < replicas_.size(); ++p)
    for (auto id : blocks_of(p)) {
      auto s = copy_of(id, mass);
      s.round = settling_;
      out.send({to(shard_of(id)), std::move(s)});
    }
}

// --- exchange with the shards

void local_worker::fetch_layer(std::uint32_t layer, std::uint64_t step, effects& out) {
  auto& q = questions_[layer];
  q = {step, layers_[layer].blocks.size(), tensors(layers_[layer].blocks.size()), true};
  for (auto id : layers_[layer].blocks) {
    auto h = to(shard_of(id));
    h.step = step;
    out.send({h, fetch{id}});
  }
}

void local_worker::on_weights(const header& h, const weights& w, effects& out) {
  const auto layer = config_.graph->params[block_at(w.block).param].layer;
  auto& q = questions_[layer];
  const auto& blocks = layers_[layer].blocks;
  const auto at = static_cast<std::size_t>(std::find(blocks.begin(), blocks.end(), w.block) - blocks.begin());
  if (!q.open || h.step != q.step || at >= blocks.size() || q.blocks[at]) return drop(drop_reason::unrequested);
  q.blocks[at] = w.value;
  if (--q.missing > 0) return;
  q.open = false;
  last_merge_[layer] = q.step;
  on_centre(layer, q.step, std::move(q.blocks), out);
}

void local_worker::join_blocks(device& d, const job_plan& plan, const std::vector<std::uint32_t>& params,
                               const std::vector<std::uint32_t>& ids, const tensors& values, tensors& wholes) {
  for (std::size_t k = 0; k < ids.size(); ++k) {
    const auto& b = plan.blocks[ids[k]];
    auto& whole = wholes[static_cast<std::size_t>(std::find(params.begin(), params.end(), b.param) - params.begin())];
    whole.back(d);
    auto slice = whole.slice(b.begin, {b.count});
    d.copy(values[k], slice);
  }
}

void local_worker::take_blocks(std::uint32_t layer, std::uint64_t version, tensors blocks, effects& out) {
  const auto& params = layer_at(layer).params;
  const auto use = [this, layer, version](const tensors& values, effects& more) {
    const auto& of = layer_at(layer).params;
    for (std::size_t i = 0; i < of.size(); ++i) replicas_[of[i]].value = values[i].reshaped(config_.graph->params[of[i]].spec.dims);
    exchanged(layer);
    release(layer, more);
    go_on(layer, version, more);
  };
  if (std::all_of(params.begin(), params.end(), [&](auto p) { return blocks_of(p).size() == 1; })) return use(blocks, out);
  auto next = std::make_shared<tensors>();
  task_cost cost{0, 0, "assemble"};
  for (auto p : params) {
    next->push_back(tensor::declare(config_.graph->params[p].spec.dims, config_.type));
    cost.bytes += 2.0 * static_cast<double>(next->back().bytes());
  }
  busy_[layer] = true;
  tasks_.run([plan = config_.plan, params, all = layers_[layer].blocks, blocks = std::move(blocks),
              next](task_context& c) { join_blocks(c.dev, *plan, params, all, blocks, *next); },
             cost, [next, use](effects& more) { use(*next, more); }, out);
}

void local_worker::push_layer(std::uint32_t layer, std::uint64_t step, const tensors& values, effects& out) {
  push_sum(layer, step, cover_[0], values, out);
}

}  // namespace troupe
