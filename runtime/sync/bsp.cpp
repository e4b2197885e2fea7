// bsp: bulk-synchronous parallel training (Valiant 1990; the synchronous mode of a parameter server, Li et al. 2014, section 3).
//
// Worker half. Per layer: the packets' gradients of step t meet in the fixed tree over packets; every maximal aligned block of the
// worker's range leaves, as soon as it is complete, as one push per parameter block, layer by layer while backward still runs.
// When all blocks of a layer at version t + 1 have come back, the layer's stage gets them. The worker never waits by itself: a stage
// runs packets of step t at exactly version t.
//
// Shard half. Per parameter block, at version t: pushes of step t meet in the same tree; when the root is complete the mean gradient
// is applied once, the version becomes t + 1, and every worker gets the block.
//
// Messages a step, per worker and parameter block: one push per maximal aligned block of the worker's range (one, when packets and
// workers are powers of two), one weights. Bytes: the block up per push, the block down.
//
// Invariants:
//   * a gradient is applied exactly once: a push with step < version, or for a tree node that is there already, is ignored;
//   * weights of version t depend on the packets' gradients alone, not on who computed them or in which order they came;
//   * a push with step > version cannot be: no stage runs step t + 1 before it has version t + 1 (dropped and counted).
#include "runtime/sync/bsp.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "ops/device.hpp"
#include "ops/filler.hpp"
#include "runtime/reduce/packet_tree.hpp"
#include "runtime/reduce/summing.hpp"
#include "runtime/sync/shard_block.hpp"

namespace troupe {
namespace {

class bsp_worker final : public role {
 public:
  explicit bsp_worker(worker_config c) : config_(std::move(c)) {
    const auto range = config_.plan->ranges[config_.worker];
    cover_ = cover(range.first, range.count, config_.plan->packets);
    layers_.resize(config_.graph->layers.size());
    blocks_of_.resize(config_.graph->params.size());
    for (const auto& b : config_.plan->blocks) {
      auto& l = layers_[config_.graph->params[b.param].layer];
      blocks_of_[b.param].push_back(b.id);
      l.blocks.push_back(b.id);
    }
    for (auto r : config_.plan->stages[config_.worker])
      for (auto l : (*config_.plan)[r].layers) layers_[l].stage = r;
  }

  void on(const envelope& e, time_point, effects& out) override {
    std::visit(overloaded{
                   [&](const gradient& g) { take_gradient(e.h, g, out); },
                   [&](const weights& w) { take_weights(e.h, w, out); },
                   [&](const finished& f) {
                     auto next = after_.extract(f.token);
                     if (!next.empty()) next.mapped()(out);
                   },
                   [&](const halt&) { out.stop(); },
                   [&](const auto&) { ++dropped_; },
               },
               e.body);
  }

  role_status status() const override {
    role_status s;
    for (const auto& l : layers_) s.version = std::max(s.version, l.version);
    s.step = s.version;
    s.in_flight = static_cast<std::uint32_t>(after_.size());
    for (const auto& l : layers_) {
      s.queued += static_cast<std::uint32_t>(l.trees.size() + l.coming.size());
      if (!l.blocks.empty() && l.version < s.version) s.waits_for = "weights of version " + std::to_string(s.version);
    }
    return s;
  }

 private:
  using continuation = std::function<void(effects&)>;
  struct assembly {
    std::size_t missing = 0;
    std::vector<tensor> parts;  // by order in layer_state::blocks
  };
  struct layer_state {
    role_id stage = no_role;
    std::vector<std::uint32_t> blocks;  // of all its parameters
    std::uint64_t version = 0;          // last handed to the stage
    bool handed = false;
    std::map<std::uint64_t, packet_tree<sum_ptr>> trees;  // by step
    std::map<std::uint64_t, std::size_t> left;            // nodes of the cover that have left, by step
    std::uint64_t complete = 0;                           // gradients of earlier steps are duplicates
    std::map<std::uint64_t, assembly> coming;             // by version
  };

  void run(job_work work, job_cost cost, continuation next, effects& out) {
    const auto token = ++tokens_;
    after_[token] = std::move(next);
    out.run(std::move(work), cost, token);
  }

  void take_gradient(const header& h, const gradient& g, effects& out) {
    auto& l = layers_[g.layer];
    if (h.step < l.complete) return void(++dropped_);
    auto& tree = l.trees.try_emplace(h.step, config_.plan->packets).first->second;
    additions due;
    const auto [node, fresh] = tree.add({h.packet, 1}, std::make_shared<tensors>(g.grads), cover_,
                                        [&](sum_ptr a, sum_ptr b) { return plan_addition(a, b, due); });
    if (!fresh) return void(++dropped_);
    const bool leaves = std::find(cover_.begin(), cover_.end(), node) != cover_.end();
    const auto step = h.step;
    const auto sum = *tree.find(node);
    if (leaves && ++l.left[step] == cover_.size()) {
      l.trees.erase(step), l.left.erase(step);
      l.complete = step + 1;
    }
    continuation next = [this, layer = g.layer, step, node = node, sum, leaves](effects& more) {
      if (leaves) push_sum(layer, step, node, *sum, more);
    };
    if (due.empty()) return next(out);
    const auto cost = cost_of(due);
    run([due = std::move(due)](job_context& c) { run_additions(due, c.dev); }, cost, std::move(next), out);
  }

  void push_sum(std::uint32_t layer, std::uint64_t step, tree_node node, const tensors& sum, effects& out) {
    const auto& params = config_.graph->layers[layer].params;
    for (std::size_t i = 0; i < params.size() && i < sum.size(); ++i) {
      if (!sum[i]) continue;
      for (auto id : blocks_of_[params[i]]) {
        const auto& b = config_.plan->blocks[id];
        auto h = header_between(config_.job, config_.self, b.shard);
        h.step = step;
        out.send({h, push{id, node.first, node.span, sum[i].slice(b.begin, {b.count})}});
      }
    }
  }

  void take_weights(const header& h, const weights& w, effects& out) {
    const auto& block = config_.plan->blocks[w.block];
    const auto layer = config_.graph->params[block.param].layer;
    auto& l = layers_[layer];
    if (l.handed && h.version <= l.version) return void(++dropped_);
    auto [at, made] = l.coming.try_emplace(h.version);
    auto& a = at->second;
    if (made) {
      a.missing = l.blocks.size();
      a.parts.resize(l.blocks.size());
    }
    for (std::size_t i = 0; i < l.blocks.size(); ++i) {
      if (l.blocks[i] != w.block) continue;
      if (a.parts[i]) return void(++dropped_);
      a.parts[i] = w.value;
      --a.missing;
    }
    if (a.missing == 0) assemble(layer, h.version, out);
  }

  // Whole parameters are handed on as they came; cut ones are put together by a job.
  void assemble(std::uint32_t layer, std::uint64_t version, effects& out) {
    auto& l = layers_[layer];
    const auto parts = std::move(l.coming[version].parts);
    l.coming.erase(l.coming.begin(), l.coming.upper_bound(version));
    l.version = version;
    l.handed = true;
    struct copy {
      std::size_t param;
      std::int64_t begin;
      tensor from;
    };
    auto values = std::make_shared<tensors>();
    std::vector<copy> copies;
    const auto& params = config_.graph->layers[layer].params;
    for (std::size_t p = 0; p < params.size(); ++p) {
      const auto& dims = config_.graph->params[params[p]].spec.dims;
      values->push_back(tensor::declare(dims, config_.type));
      for (std::size_t i = 0; i < l.blocks.size(); ++i) {
        const auto& b = config_.plan->blocks[l.blocks[i]];
        if (b.param != params[p]) continue;
        if (b.count == dims.count())
          values->back() = parts[i].reshaped(dims);
        else
          copies.push_back({p, b.begin, parts[i]});
      }
    }
    continuation next = [this, layer, version, values](effects& more) {
      auto h = header_between(config_.job, config_.self, layers_[layer].stage);
      h.version = version;
      more.send({h, layer_weights{layer, *values}});
    };
    if (copies.empty()) return next(out);
    job_cost cost{0, 0, "assemble"};
    for (const auto& c : copies) cost.bytes += 2.0 * static_cast<double>(c.from.bytes());
    run(
        [values, copies = std::move(copies)](job_context& c) {
          for (const auto& part : copies) {
            auto& whole = (*values)[part.param];
            whole.back(c.dev);
            auto slice = whole.slice(part.begin, {part.from.count()});
            c.dev.copy(part.from, slice);
          }
        },
        cost, std::move(next), out);
  }

  worker_config config_;
  std::vector<tree_node> cover_;
  std::vector<layer_state> layers_;
  std::vector<std::vector<std::uint32_t>> blocks_of_;  // by parameter, in order of `begin`
  std::map<std::uint64_t, continuation> after_;
  std::uint64_t tokens_ = 0, dropped_ = 0;
};

class bsp_shard final : public role {
 public:
  explicit bsp_shard(shard_config c) : config_(std::move(c)), blocks_(config_) {
    for (auto& b : blocks_.list()) trees_.emplace(b.plan->id, config_.plan->packets);
  }

  void on(const envelope& e, time_point, effects& out) override {
    std::visit(overloaded{
                   [&](const start&) { blocks_.fill(fill_token, out); },
                   [&](const push& p) { take_push(e.h, p, out); },
                   [&](const set_value& s) { blocks_.set(s); },
                   [&](const collect& c) { blocks_.collect_at(c, e.h.version, out); },
                   [&](const finished& f) { take_finished(f.token, out); },
                   [&](const halt&) { out.stop(); },
                   [&](const auto&) { ++dropped_; },
               },
               e.body);
  }

  role_status status() const override {
    role_status s;
    s.version = blocks_.oldest();
    s.step = s.version;
    for (const auto& [id, t] : trees_) s.queued += static_cast<std::uint32_t>(t.size());
    s.waits_for = "gradients of step " + std::to_string(s.step);
    return s;
  }

 private:
  static constexpr std::uint64_t fill_token = ~0ull, add_token = ~1ull;

  void take_push(const header& h, const push& p, effects& out) {
    auto* b = blocks_.find(p.block);
    if (!b || !b->ready || h.step != b->version || b->updating || !well_formed({p.first, p.span}, config_.plan->packets) ||
        p.sum.count() != b->plan->count)
      return void(++dropped_);
    additions due;
    auto& tree = trees_.at(p.block);
    const auto [node, fresh] = tree.add({p.first, p.span}, std::make_shared<tensors>(1, p.sum), {},
                                        [&](sum_ptr x, sum_ptr y) { return plan_addition(x, y, due); });
    if (!fresh) return void(++dropped_);
    if (node == root_of(config_.plan->packets)) {
      auto sum = *tree.find(node);
      tree = packet_tree<sum_ptr>(config_.plan->packets);
      blocks_.update(*b, std::move(due), std::move(sum), 1.0 / config_.plan->packets, p.block, out);
    } else if (!due.empty()) {
      const auto cost = cost_of(due);
      out.run([due = std::move(due)](job_context& c) { run_additions(due, c.dev); }, cost, add_token);
    }
  }

  void take_finished(std::uint64_t token, effects& out) {
    if (token == add_token) return;
    if (token == fill_token) {
      for (auto& b : blocks_.list()) {
        b.ready = true;
        broadcast(b, out);
      }
    } else {
      auto* b = blocks_.find(static_cast<std::uint32_t>(token));
      blocks_.updated(*b);
      broadcast(*b, out);
    }
    blocks_.answer_collects(out);
  }

  void broadcast(const shard_block& b, effects& out) {
    for (auto w : config_.plan->workers) {
      auto h = header_between(config_.job, config_.self, w);
      h.version = b.version;
      out.send({h, weights{b.plan->id, b.value}});
    }
  }

  shard_config config_;
  shard_blocks blocks_;
  std::map<std::uint32_t, packet_tree<sum_ptr>> trees_;
  std::uint64_t dropped_ = 0;
};

}  // namespace

sync_mode bsp_mode() {
  return {
      "bsp",
      "Bulk-synchronous: every step uses the mean gradient over all packets, summed in a fixed order; all workers run step t at "
      "weights of version t. Valiant 1990; Li et al. 2014.",
      {},
      [](worker_config c) { return std::make_unique<bsp_worker>(std::move(c)); },
      [](shard_config c) { return std::make_unique<bsp_shard>(std::move(c)); }};
}

}  // namespace troupe
