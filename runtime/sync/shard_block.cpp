#include "runtime/sync/shard_block.hpp"

#include "ops/device.hpp"
#include "ops/filler.hpp"

namespace troupe {

header header_between(std::uint32_t job, role_id from, role_id to) {
  header h;
  h.job = job;
  h.src = from;
  h.dst = to;
  return h;
}

shard_blocks::shard_blocks(const shard_config& c) : config_(c) {
  const auto states = config_.update->states().size();
  for (const auto& b : config_.plan->blocks) {
    if (b.shard != config_.self) continue;
    shard_block mine;
    mine.plan = &b;
    mine.version = config_.first_step;
    mine.value = tensor::declare({b.count}, config_.type);
    mine.rule.assign(states, tensor::declare({b.count}, config_.type));
    blocks_.push_back(std::move(mine));
  }
}

shard_block* shard_blocks::find(std::uint32_t id) {
  for (auto& b : blocks_)
    if (b.plan->id == id) return &b;
  return nullptr;
}

std::uint64_t shard_blocks::oldest() const {
  std::uint64_t v = ~0ull;
  for (const auto& b : blocks_) v = b.version < v ? b.version : v;
  return blocks_.empty() ? config_.first_step : v;
}

void shard_blocks::fill(std::uint64_t token, effects& out) {
  auto work = [this](job_context& c) {
    for (auto& b : blocks_) {
      const auto& p = config_.graph->params[b.plan->param];
      auto whole = config_.initial ? (*config_.initial)[b.plan->param] : tensor{};
      if (!whole) {
        whole = tensor::allocate(c.dev, p.spec.dims, config_.type);
        fill_param(c.dev, p.spec, config_.seed, p.layer, p.index_in_layer, whole);
      }
      b.value.back(c.dev);
      c.dev.copy(whole.slice(b.plan->begin, {b.plan->count}), b.value);
      for (std::size_t k = 0; k < b.rule.size(); ++k) {
        b.rule[k] = tensor::allocate(c.dev, {b.plan->count}, config_.type);
        const bool given = config_.initial_rule && k < (*config_.initial_rule)[b.plan->param].size();
        if (given)
          c.dev.copy((*config_.initial_rule)[b.plan->param][k].slice(b.plan->begin, {b.plan->count}), b.rule[k]);
        else
          c.dev.fill(0, b.rule[k]);
      }
    }
  };
  out.run(std::move(work), {0, 0, "fill"}, token);
}

double shard_blocks::value_at(const std::vector<std::pair<std::uint64_t, double>>& changes, double first,
                              std::uint64_t step) const {
  for (const auto& [from, value] : changes)
    if (step >= from) first = value;
  return first;
}

void shard_blocks::update(shard_block& b, additions due, sum_ptr sum, double scale, std::uint64_t token, effects& out) {
  const auto& spec = config_.graph->params[b.plan->param].spec;
  rule_step in;
  in.step = b.version;
  in.updates = b.version;
  in.clip_value = config_.clip_value;
  in.grad_scale = scale;
  in.lr = config_.rate->lr(value_at(lr_, config_.lr, in.step), in.step) * spec.lr_multiplier;
  in.decay = value_at(decay_, config_.decay, in.step) * spec.decay_multiplier;
  b.updating = true;
  b.next_value = tensor::declare({b.plan->count}, config_.type);
  auto cost = cost_of(due);
  cost.kind = "update";
  cost.bytes += static_cast<double>(b.next_value.bytes() * (3 + 2 * b.rule.size()));
  out.run(
      [this, &b, due = std::move(due), sum = std::move(sum), in](job_context& c) {
        run_additions(due, c.dev);
        b.next_value.back(c.dev);
        // Rule states never leave the shard but for a snapshot: in place unless a snapshot holds them.
        b.next_rule = b.rule;
        for (auto& t : b.next_rule)
          if (t.frozen()) t = tensor::allocate(c.dev, t.dims(), t.type());
        config_.update->update(c.dev, in, b.value, (*sum)[0], b.next_value, b.rule, b.next_rule);
      },
      cost, token);
}

void shard_blocks::updated(shard_block& b) {
  b.value = std::move(b.next_value);
  if (!b.next_rule.empty()) b.rule = std::move(b.next_rule);
  b.next_rule.clear();
  b.updating = false;
  ++b.version;
}

void shard_blocks::set(const set_value& s) {
  if (s.key == "train.dynamics.lr") lr_.emplace_back(s.from, s.value);
  if (s.key == "train.dynamics.decay") decay_.emplace_back(s.from, s.value);
}

void shard_blocks::collect_at(const collect& c, std::uint64_t version, effects& out) {
  collects_.push_back({c, version, std::vector<bool>(blocks_.size(), false)});
  answer_collects(out);
}

void shard_blocks::answer_collects(effects& out) {
  for (auto& w : collects_) {
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      auto& b = blocks_[i];
      if (w.sent[i] || !b.ready || b.version < w.version) continue;
      w.sent[i] = true;
      auto h = header_between(config_.job, config_.self, role_id{0});
      h.version = b.version;
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
