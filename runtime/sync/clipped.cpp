#include "runtime/sync/clipped.hpp"

#include <algorithm>
#include <bit>

#include "ops/clip.hpp"
#include "ops/device.hpp"
#include "runtime/reduce/norm.hpp"
#include "runtime/sync/guarded.hpp"
#include "runtime/sync/norm_parts.hpp"

namespace troupe {
namespace {

class clipped_shard final : public guarded_shard {
 public:
  clipped_shard(sync_config c, clock_policy p) : guarded_shard(std::move(c), p) {
    for (const auto& b : config_.plan->blocks)
      if (counts(b)) ++expected_;
    for (const auto& l : config_.graph->layers)
      for (auto param : l.params) {
        const auto elements = config_.graph->params[param].spec.dims.count();
        parts_.push_back(norm_parts(config_.plan->blocks, param, elements));
      }
  }

 private:
  struct ready_block {
    shard_block* block;
    sum_ptr sum;
    std::uint32_t packets;
  };
  struct round {
    std::map<std::uint32_t, std::vector<square_sum>> parts;  // by block id
    std::vector<ready_block> waiting;                        // this shard's blocks, whose updates wait for the factor
  };

  // Returns true if the block receives a gradient in training.
  bool counts(const param_block& b) const {
    const auto& p = config_.graph->params[b.param];
    const auto& l = config_.graph->layers[p.layer];
    return p.spec.trainable && l.in_train && l.wants_backward;
  }

  void take_sound(shard_block& b, additions due, sum_ptr sum, std::uint32_t packets, std::uint64_t step, effects& out) override {
    if (!counts(*b.plan)) return guarded_shard::take_sound(b, std::move(due), std::move(sum), packets, step, out);
    rounds_[step].waiting.push_back({&b, sum, packets});
    auto found = std::make_shared<std::vector<square_sum>>();
    auto cost = cost_of(due);
    cost.kind = "norm";
    cost.bytes += static_cast<double>(b.value.bytes());
    const auto part = place_in_norm_part(config_.plan->blocks, *b.plan, config_.graph->params[b.plan->param].spec.dims.count());
    tasks_.run(
        [due = std::move(due), sum, found, part, row = b.plan->run](task_context& c) {
          run_additions(due, c.dev);
          row > 0 ? find_square_sums_of_rows(c.dev, (*sum)[0], row, part.begin, found)
                  : find_square_sums(c.dev, (*sum)[0], part.begin, part.total, found);
        },
        cost,
        [this, &b, found, step](effects& more) {
          for (auto s : config_.plan->shards) {
            if (s == config_.self || (*config_.plan)[s].group != group()) continue;
            auto h = to(s);
            h.step = step;
            norm_partials partials{b.plan->id, {}};
            for (const auto& one : *found)
              partials.parts.emplace_back(std::uint64_t{one.node.first} << 32 | one.node.span,
                                          std::bit_cast<std::uint64_t>(one.sum));
            more.send({h, std::move(partials)});
          }
          take(b.plan->id, step, std::move(*found), more);
        },
        out);
  }

  void on_other(const envelope& e, effects& out) override {
    const auto* s = std::get_if<norm_partials>(&e.body);
    if (!s) return guarded_shard::on_other(e, out);
    if (s->block >= config_.plan->blocks.size() || !counts(config_.plan->blocks[s->block]) ||
        e.h.src != config_.plan->shard_of(config_.plan->blocks[s->block], group()))
      return drop(drop_reason::misaddressed);
    if (e.h.step < next_) return drop(drop_reason::outdated);
    std::vector<square_sum> parts;
    for (const auto& [node, bits] : s->parts)
      parts.push_back({{static_cast<std::uint32_t>(node >> 32), static_cast<std::uint32_t>(node)}, std::bit_cast<double>(bits)});
    take(s->block, e.h.step, std::move(parts), out);
  }

  void take(std::uint32_t block, std::uint64_t step, std::vector<square_sum> parts, effects& out) {
    auto& r = rounds_[step];
    if (!r.parts.try_emplace(block, std::move(parts)).second) return drop(drop_reason::repeated);
    if (r.parts.size() < expected_) return;
    const auto done = std::move(r);
    rounds_.erase(step);
    next_ = step + 1;
    const auto all = sums_of_squares(done);
    for (const auto& w : done.waiting)
      run_update(*w.block, {}, w.sum, w.packets, norm_clip_factor(config_.clip_norm, all, 1.0 / w.packets), step, out);
  }

  // The sum of squares of one parameter: its parts in order, each computed from the partials of its
  // blocks. Nullopt if a partial is missing.
  static std::optional<double> sum_of_parts(const round& r, const std::vector<norm_part>& parts) {
    double sum = 0;
    for (const auto& part : parts) {
      std::vector<square_sum> found;
      for (auto id : part.blocks)
        if (const auto i = r.parts.find(id); i != r.parts.end()) found.insert(found.end(), i->second.begin(), i->second.end());
      const auto one = part.rows ? sum_of_rows(std::move(found), part.total) : sum_of_squares(found, part.total);
      if (!one) return std::nullopt;
      sum += *one;
    }
    return sum;
  }

  // One sum per parameter, in layer order. Simulations without maths have no sums, and nothing is
  // clipped.
  std::vector<double> sums_of_squares(const round& r) const {
    std::vector<double> all;
    for (const auto& parts : parts_)
      if (const auto sum = sum_of_parts(r, parts)) all.push_back(*sum);
    return all;
  }

  std::size_t expected_ = 0;                   // number of blocks that receive a gradient
  std::vector<std::vector<norm_part>> parts_;  // by parameter, in layer order
  std::uint64_t next_ = 0;                     // first step whose factor is not known
  std::map<std::uint64_t, round> rounds_;
};

}  // namespace

std::unique_ptr<role> make_clocked_shard(sync_config c, clock_policy p) {
  if (c.clip_norm > 0) return std::make_unique<clipped_shard>(std::move(c), p);
  return std::make_unique<guarded_shard>(std::move(c), p);
}

}  // namespace troupe
