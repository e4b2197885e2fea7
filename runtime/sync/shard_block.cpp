#include "runtime/sync/shard_block.hpp"

#include <algorithm>

#include "ops/device.hpp"
#include "ops/filler.hpp"
#include "ops/finite.hpp"
#include "ops/rules/average.hpp"
#include "runtime/base/invariant.hpp"
#include "runtime/plan/block_copy.hpp"
#include "runtime/reduce/fold.hpp"

namespace troupe {
namespace {

// Elements of a piece: its gradient, weights and one rule state stay in a core's cache between the
// check and the update.
constexpr std::int64_t piece = 1 << 15;

// Checks the gradient and applies one step of the rule, piece by piece, so that the gradient is
// read from memory once. Returns false if it is not finite; the result must then be discarded. The
// pieces have the bits of the whole (ops/rule.hpp).
bool update_looking(device& dev, const rule& r, const rule_step& in, const tensor& value, const tensor& gradient, tensor& to,
                    const tensors& states, tensors& states_to) {
  const auto all = gradient.reshaped({gradient.count()});
  for (std::int64_t begin = 0; begin < all.count(); begin += piece) {
    const shape part{std::min(piece, all.count() - begin)};
    const auto g = all.slice(begin, part);
    if (!all_finite(g)) return false;
    auto w = to.slice(begin, part);
    tensors was, next;
    for (const auto& s : states) was.push_back(s.slice(begin, part));
    for (const auto& s : states_to) next.push_back(s.slice(begin, part));
    r.update(dev, in, value.slice(begin, part), g, w, was, next);
  }
  return true;
}

}  // namespace

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

rule_step rule_step_at(const sync_config& c, std::uint32_t p, std::uint64_t step) {
  const auto& spec = c.graph->params[p].spec;
  rule_step in;
  in.step = step;
  in.clip_value = c.clip_value;
  in.lr = c.rate->lr(value_at(c.lr_changes, c.lr, step), step) * spec.lr_multiplier;
  in.decay = value_at(c.decay_changes, c.decay, step) * spec.decay_multiplier;
  in.decay_l1 = c.decay_l1 * spec.decay_multiplier;
  return in;
}

void apply_setting(sync_config& c, const set_value& s) {
  if (s.key == "train.dynamics.lr") c.lr_changes.emplace_back(s.from, s.value);
  if (s.key == "train.dynamics.decay") c.decay_changes.emplace_back(s.from, s.value);
}

shard_blocks::shard_blocks(const sync_config& c) : config_(c), at_(c.plan->blocks.size(), 0) {
  const auto states = config_.update->states().size();
  const auto group = (*config_.plan)[config_.self].group;
  for (const auto& b : config_.plan->blocks) {
    if (config_.plan->shard_of(b, group) != config_.self) continue;
    shard_block mine;
    mine.plan = &b;
    mine.version = mine.updates = config_.first_step;
    mine.value = tensor::declare({b.count}, config_.type);
    mine.rule->assign(states, tensor::declare({b.count}, config_.type));
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

task_work shard_blocks::fill() {
  struct wish {
    const param_block* block;
    block_content given;  // no value: use the filler
  };
  std::vector<wish> wishes;
  filling_ = lent(std::make_shared<std::vector<block_update>>());
  for (auto& b : blocks_) {
    wishes.push_back({b.plan, {}});
    if (config_.inherited) {
      wishes.back().given = config_.inherited->at(b.plan->id);
      b.updates = wishes.back().given.updates;
    }
    filling_->push_back({b.value, *b.rule, b.updates});
  }
  return [graph = config_.graph, plan = config_.plan, type = config_.type, seed = config_.seed, wishes = std::move(wishes),
          names = config_.update->states(), made = filling_.lend()](task_context& c) {
    const auto take = [&](const tensor& given, tensor& to) {
      if (given.type() == type) return void(to = given);
      to.back(c.dev);
      c.dev.copy(given, to);
    };
    tensor whole;  // the filled parameter of block i; blocks of one parameter are consecutive
    for (std::size_t i = 0; i < made->size(); ++i) {
      const auto& [block, given] = wishes[i];
      auto& to = (*made)[i];
      const auto& p = graph->params[block->param];
      if (given.value) {
        take(given.value, to.value);
      } else {
        if (i == 0 || wishes[i - 1].block->param != block->param) whole = {};
        if (!whole) {
          whole = tensor::allocate(c.dev, p.spec.dims, type);
          fill_param(c.dev, p.spec, seed, p.layer, p.index_in_layer, whole);
        }
        to.value.back(c.dev);
        copy_block_out(c.dev, whole, *block, to.value);
      }
      for (std::size_t k = 0; k < to.rule.size(); ++k) {
        if (k < given.rule.size()) {
          take(given.rule[k], to.rule[k]);
        } else {
          to.rule[k].back(c.dev);
          names[k] == average_state ? c.dev.copy(to.value, to.rule[k]) : c.dev.fill(0, to.rule[k]);
        }
      }
    }
  };
}

void shard_blocks::filled() {
  filling_.give_back();
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    auto& made = (*filling_)[i];
    blocks_[i].value = std::move(made.value);
    *blocks_[i].rule = std::move(made.rule);
  }
  filling_ = {};
}

// What the next update of the block must count; null: nothing.
std::shared_ptr<block_histograms> shard_blocks::wanted_histograms(const shard_block& b) const {
  const auto version = b.version + 1;
  const bool wished = b.wish && version >= b.wish->version;
  if (!wished && (config_.histograms_every == 0 || version % config_.histograms_every != 0)) return nullptr;
  auto h = std::make_shared<block_histograms>();
  h->block = b.plan->id;
  h->step = wished ? b.wish->step : version;
  h->version = version;
  return h;
}

std::pair<task_work, task_cost> shard_blocks::update(shard_block& b, additions due, sum_ptr sum, std::uint32_t packets, double clip,
                                                     std::uint64_t step, bool looks) {
  auto in = rule_step_at(config_, b.plan->param, step);
  in.grad_scale = 1.0 / packets * clip;
  in.updates = b.updates;
  b.updating = true;
  b.next = lent(std::make_shared<block_update>());
  b.next->value = tensor::declare({b.plan->count}, config_.type);
  b.next->updates = b.updates + 1;
  b.next->histograms = wanted_histograms(b);
  auto cost = cost_of(due);
  cost.kind = "update";
  cost.bytes += static_cast<double>(b.next->value.bytes() * (3 + 2 * b.rule->size()));
  // If the states may be needed after a node failure, the task does not change them.
  auto states = config_.outlives ? std::make_shared<tensors>(*b.rule) : b.rule.lend();
  return {[graph = config_.graph, rule = config_.update, param = b.plan->param, value = b.value, states = std::move(states),
           next = b.next.lend(), due = std::move(due), sum = std::move(sum), in, packets, looks, spares = config_.max_skipped > 0,
           apart = config_.outlives](task_context& c) mutable {
            run_additions(due, c.dev);
            const auto& spec = graph->params[param].spec;
            const bool at_once = looks && !spares && spec.trainable && !graph->params[param].frozen && &c.dev.host() == &c.dev &&
                                 value.count() > piece;
            if (looks && !at_once) look_for_not_finite(c.dev, (*sum)[0], [next] { next->not_finite = true; });
            if (next->not_finite) return;
            auto* const counts = next->histograms.get();
            if (!spec.trainable && !graph->params[param].frozen) {
              fold_statistics(c.dev, spec, packets, value, (*sum)[0], next->value);
              if (counts) counts->weight.take(c.dev, next->value);
              return;
            }
            // Before the update, which may write to the memory of the gradient.
            if (counts) counts->gradient.take(c.dev, (*sum)[0], 1.0 / packets);
            // Computes in the memory of the gradient if no other handle refers to it. whole(): a
            // slice would keep more memory than its own.
            auto& gradient = (*sum)[0];
            if (gradient.whole() && reclaim(c.dev, gradient))
              next->value = gradient.reshaped(next->value.dims());
            else
              next->value.back(c.dev);
            // Rule states leave the shard only in snapshots. They are updated in place, unless a
            // snapshot holds them, they may be needed after a node failure (`apart`), or a device
            // with queues reports a non-finite gradient only after the update (`later`).
            const bool later = looks && spares && &c.dev.host() != &c.dev;
            next->rule = *states;
            for (auto& s : next->rule)
              if (apart || s.frozen() || s.space() != c.dev.space() || later) s = tensor::allocate(c.dev, s.dims(), s.type());
            if (graph->params[param].frozen)
              keep_value(c.dev, value, next->value, *states, next->rule);
            else if (at_once)
              next->not_finite = !update_looking(c.dev, *rule, in, value, gradient, next->value, *states, next->rule);
            else
              rule->update(c.dev, in, value, gradient, next->value, *states, next->rule);
            if (counts) counts->weight.take(c.dev, next->value);
            gradient.let_go();  // the task object may be destroyed later
            value.let_go();
            states.reset();
          },
          cost};
}

void shard_blocks::take_back(shard_block& b) {
  b.next.give_back();
  if (b.rule.out()) b.rule.give_back();
}

void shard_blocks::updated(shard_block& b) {
  invariant(b.next && b.updating, "an update was begun before it is over");
  if (config_.plan->nodes.size() > 1) {
    b.past.push_front({b.version, b.updates, std::move(b.value), config_.outlives ? *b.rule : tensors{}});
    if (b.past.size() > remembered_) b.past.resize(remembered_);
  }
  b.value = std::move(b.next->value);
  if (!b.next->rule.empty()) *b.rule = std::move(b.next->rule);
  b.updates = b.next->updates;
  b.next = {};
  b.updating = false;
  ++b.version;
}

void shard_blocks::send_copy(const shard_block& b, role_id to, effects& out) const {
  auto h = header_between(config_.job, config_.self, to);
  h.version = b.version + (b.next ? 1 : 0);
  const auto oldest = b.version < remembered_ ? 0 : b.version - (remembered_ - 1);
  out.send({h, state{0, b.plan->id, b.next ? b.next->value : b.value, b.next ? b.next->rule : *b.rule,
                     b.next ? b.next->updates : b.updates, oldest}});
}

inventory shard_blocks::at_hand(std::uint64_t request) const {
  inventory all{request, {}, {}};
  for (const auto& b : blocks_) {
    if (!b.filled) continue;
    const bool whole = config_.outlives && !b.past.empty();
    all.least.emplace_back(b.plan->id, whole ? b.past.back().version : b.version);
    all.newest.emplace_back(b.plan->id, b.version);
  }
  return all;
}

void shard_blocks::send_version(const collect& c, role_id asker, std::uint64_t version, effects& out) const {
  for (const auto& b : blocks_) {
    if (!b.filled || b.rule.out()) continue;  // lent: never in a job that outlives nodes
    past_block is{b.version, b.updates, b.value, *b.rule};
    for (const auto& p : b.past)
      if (p.version == version) is = p;
    if (is.version != version && version != any_version) continue;
    auto h = header_between(config_.job, config_.self, asker);
    h.version = is.version;
    out.send({h, state{c.request, b.plan->id, std::move(is.value), std::move(is.rule), is.updates}});
  }
}

void shard_blocks::leave_out(shard_block& b) {
  b.updating = true;
  if (!b.next) b.next = lent(std::make_shared<block_update>());
  b.next->value = b.value;
  b.next->rule.clear();
  b.next->updates = b.updates;
}

void shard_blocks::collect_at(const collect& c, role_id asker, std::uint64_t version, effects& out) {
  collects_.push_back({c, asker, version, std::vector<bool>(blocks_.size(), false)});
  answer_collects(out);
}

void shard_blocks::count_at(std::uint64_t step, std::uint64_t version, std::vector<bool> without) {
  collects_.push_back({{}, no_role, version, std::move(without), step});
}

void shard_blocks::answer_collects(effects& out) {
  if (collects_.empty() || hold_collects) return;
  for (auto& w : collects_) {
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      auto& b = blocks_[i];
      if (w.sent[i] || !b.filled || b.version < w.version || (w.request.with_state && b.rule.out())) continue;
      w.sent[i] = true;
      if (w.histograms_for) {
        countable_.push_back({b.plan->id, *w.histograms_for, b.version, b.value});
        continue;
      }
      auto h = header_between(config_.job, config_.self, w.asker);
      h.version = b.version;
      out.send({h, state{w.request.request, b.plan->id, b.value, w.request.with_state ? *b.rule : tensors{}, b.updates}});
    }
  }
  std::erase_if(collects_, [](const wanted& w) {
    for (bool s : w.sent)
      if (!s) return false;
    return true;
  });
}

}  // namespace troupe
