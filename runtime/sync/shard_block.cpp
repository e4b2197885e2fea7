#include "runtime/sync/shard_block.hpp"

#include "ops/device.hpp"
#include "ops/filler.hpp"
#include "runtime/graph/block_copy.hpp"
#include "runtime/reduce/fold.hpp"

namespace troupe {

header header_between(std::uint32_t job, role_id from, role_id to) {
  header h;
  h.job = job;
  h.src = from;
  h.dst = to;
  return h;
}

double value_at(const std::vector<std::pair<std::uint64_t, double>>& changes, double first, std::uint64_t step) {
  for (const auto& [from, value] : changes)
    if (step >= from) first = value;
  return first;
}

rule_step rule_step_at(const half_config& c, std::uint32_t p, std::uint64_t step) {
  const auto& spec = c.graph->params[p].spec;
  rule_step in;
  in.step = step;
  in.clip_value = c.clip_value;
  in.lr = c.rate->lr(value_at(c.lr_changes, c.lr, step), step) * spec.lr_multiplier;
  in.decay = value_at(c.decay_changes, c.decay, step) * spec.decay_multiplier;
  return in;
}

void apply_setting(half_config& c, const set_value& s) {
  if (s.key == "train.dynamics.lr") c.lr_changes.emplace_back(s.from, s.value);
  if (s.key == "train.dynamics.decay") c.decay_changes.emplace_back(s.from, s.value);
}

shard_blocks::shard_blocks(const half_config& c) : config_(c), at_(c.plan->blocks.size(), 0) {
  const auto states = config_.update->states().size();
  const auto group = (*config_.plan)[config_.self].group;
  for (const auto& b : config_.plan->blocks) {
    if (config_.plan->shard_of(b, group) != config_.self) continue;
    shard_block mine;
    mine.plan = &b;
    mine.version = mine.updates = config_.first_step;
    mine.value = tensor::declare({b.count}, config_.type);
    mine.rule.assign(states, tensor::declare({b.count}, config_.type));
    blocks_.push_back(std::move(mine));
    at_[b.id] = static_cast<std::uint32_t>(blocks_.size());
  }
}

shard_block* shard_blocks::find(std::uint32_t id) { return id < at_.size() && at_[id] > 0 ? &blocks_[at_[id] - 1] : nullptr; }

std::uint64_t shard_blocks::oldest() const {
  std::uint64_t v = ~0ull;
  for (const auto& b : blocks_) v = b.version < v ? b.version : v;
  return blocks_.empty() ? config_.first_step : v;
}

job_work shard_blocks::fill() {
  if (config_.inherited)
    for (auto& b : blocks_) {
      const auto& from = config_.inherited->at(b.plan->id);
      b.value = from.value;
      b.rule = from.rule;
      b.updates = from.updates;
    }
  return [this](job_context& c) {
    for (auto& b : blocks_) {
      if (config_.inherited) continue;
      const auto& p = config_.graph->params[b.plan->param];
      auto whole = config_.initial ? (*config_.initial)[b.plan->param] : tensor{};
      if (!whole) {
        whole = tensor::allocate(c.dev, p.spec.dims, config_.type);
        fill_param(c.dev, p.spec, config_.seed, p.layer, p.index_in_layer, whole);
      }
      b.value.back(c.dev);
      copy_block_out(c.dev, whole, *b.plan, b.value);
      for (std::size_t k = 0; k < b.rule.size(); ++k) {
        b.rule[k] = tensor::allocate(c.dev, {b.plan->count}, config_.type);
        const bool given = config_.initial_rule && k < (*config_.initial_rule)[b.plan->param].size();
        if (given)
          copy_block_out(c.dev, (*config_.initial_rule)[b.plan->param][k], *b.plan, b.rule[k]);
        else
          c.dev.fill(0, b.rule[k]);
      }
    }
  };
}

std::pair<job_work, job_cost> shard_blocks::update(shard_block& b, additions due, sum_ptr sum, std::uint32_t packets, double clip,
                                                   std::uint64_t step) {
  auto in = rule_step_at(config_, b.plan->param, step);
  in.grad_scale = 1.0 / packets * clip;
  in.updates = b.updates;
  b.updating = true;
  b.next_value = tensor::declare({b.plan->count}, config_.type);
  auto cost = cost_of(due);
  cost.kind = "update";
  cost.bytes += static_cast<double>(b.next_value.bytes() * (3 + 2 * b.rule.size()));
  return {[this, &b, due = std::move(due), sum = std::move(sum), in, packets](job_context& c) {
            run_additions(due, c.dev);
            const auto& spec = config_.graph->params[b.plan->param].spec;
            if (!spec.trainable) {
              b.next_rule = b.rule;
              return fold_statistics(c.dev, spec, packets, b.value, (*sum)[0], b.next_value);
            }
            // In the memory of the gradient, where nobody else sees it (whole() keeps a slice from holding on to more than it is).
            auto& gradient = (*sum)[0];
            if (gradient.whole() && reclaim(c.dev, gradient))
              b.next_value = gradient.reshaped(b.next_value.dims());
            else
              b.next_value.back(c.dev);
            // Rule states never leave the shard but for a snapshot: in place unless a snapshot holds them.
            // Or held them, and has let go.
            b.next_rule = b.rule;
            for (std::size_t k = 0; k < b.rule.size(); ++k) {
              if (!b.rule[k].frozen()) continue;
              b.next_rule[k].let_go();
              if (reclaim(c.dev, b.rule[k]))
                b.next_rule[k] = b.rule[k];
              else
                b.next_rule[k].back(c.dev);
            }
            config_.update->update(c.dev, in, b.value, gradient, b.next_value, b.rule, b.next_rule);
            gradient.let_go();  // the job itself may live on for a while
          },
          cost};
}

void shard_blocks::updated(shard_block& b) {
  if (config_.keeps) {
    b.earlier[b.version] = b.value;
    if (b.earlier.size() >= config_.plan->versions_needed()) b.earlier.erase(b.earlier.begin());
  }
  if (config_.plan->nodes.size() > 1) b.previous = std::move(b.value);
  b.value = std::move(b.next_value);
  if (!b.next_rule.empty()) std::swap(b.rule, b.next_rule);  // the list's memory serves again
  b.next_rule.clear();
  b.updating = false;
  ++b.version;
  ++b.updates;
}

void shard_blocks::collect_at(const collect& c, role_id asker, std::uint64_t version, effects& out) {
  collects_.push_back({c, asker, version, std::vector<bool>(blocks_.size(), false)});
  answer_collects(out);
}

void shard_blocks::answer_collects(effects& out) {
  if (collects_.empty() || hold_collects) return;
  for (auto& w : collects_) {
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      auto& b = blocks_[i];
      if (w.sent[i] || !b.ready || b.version < w.version) continue;
      w.sent[i] = true;
      auto h = header_between(config_.job, config_.self, w.asker);
      h.version = b.version;
      h.step = b.updates;
      out.send({h, state{w.request.request, b.plan->id, b.value, w.request.with_state ? b.rule : tensors{}}});
    }
  }
  std::erase_if(collects_, [](const wanted& w) {
    for (bool s : w.sent)
      if (!s) return false;
    return true;
  });
}

}  // namespace troupe
