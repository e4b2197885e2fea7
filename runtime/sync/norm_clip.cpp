#include "runtime/sync/norm_clip.hpp"

#include <algorithm>
#include <map>

#include "ops/clip.hpp"
#include "ops/device.hpp"
#include "runtime/base/invariant.hpp"
#include "runtime/reduce/norm.hpp"

namespace troupe {
namespace {

// The sum of squares of one parameter: its parts in order, each computed from the partials of its
// blocks. Nullopt if a partial is missing.
std::optional<double> sum_of_parts(const std::map<std::uint32_t, std::vector<square_sum>>& by_block,
                                   const std::vector<norm_part>& parts) {
  double sum = 0;
  for (const auto& part : parts) {
    std::vector<square_sum> found;
    for (auto id : part.blocks)
      if (const auto i = by_block.find(id); i != by_block.end()) found.insert(found.end(), i->second.begin(), i->second.end());
    const auto one = part.rows ? sum_of_rows(std::move(found), part.total) : sum_of_squares(found, part.total);
    if (!one) return std::nullopt;
    sum += *one;
  }
  return sum;
}

}  // namespace

norm_clip::norm_clip(const shard_parts& p) : update_step(p) {
  for (const auto& b : p.plan().blocks)
    if (counts(b)) ++expected_;
  for (const auto& l : p.config.graph->layers)
    for (auto param : l.params)
      parts_of_.push_back(norm_parts(p.plan().blocks, param, p.config.graph->params[param].spec.dims.count()));
}

// Returns true if the block receives a gradient in training and is updated with it.
bool norm_clip::counts(const param_block& b) const {
  const auto& p = parts_.config.graph->params[b.param];
  const auto& l = parts_.config.graph->layers[p.layer];
  return p.spec.trainable && !p.frozen && l.in_train && l.wants_backward;
}

void norm_clip::take(complete_gradient g, effects& out) {
  const auto& b = *g.block->plan;
  if (!g.sum || !counts(b)) return pass(std::move(g), out);
  const auto found = std::make_shared<std::vector<square_sum>>();
  auto cost = cost_of(g.due);
  cost.kind = "norm";
  cost.bytes += static_cast<double>(g.block->value.bytes());
  const auto part = place_in_norm_part(parts_.plan().blocks, b, parts_.config.graph->params[b.param].spec.dims.count());
  auto measure = [due = std::move(g.due), sum = g.sum, found, part, row = b.run](task_context& c) {
    run_additions(due, c.dev);
    row > 0 ? find_square_sums_of_rows(c.dev, (*sum)[0], row, part.begin, found)
            : find_square_sums(c.dev, (*sum)[0], part.begin, part.total, found);
  };
  const auto step = g.step;
  rounds_[step].held.push_back(std::move(g));
  parts_.tasks.run(
      std::move(measure), cost, [this, id = b.id, step, found](effects& more) { measured(id, step, std::move(*found), more); },
      out);
}

// Sends the partials of a block of this shard to the other shards.
void norm_clip::measured(std::uint32_t block, std::uint64_t step, std::vector<square_sum> found, effects& out) {
  for (auto s : parts_.plan().shards) {
    if (s == parts_.config.self || parts_.plan()[s].group != parts_.group()) continue;
    auto h = parts_.to(s);
    h.step = step;
    out.send({h, norm_partials{block, found}});
  }
  const auto why = add(block, step, std::move(found), out);
  invariant(!why, "a block of this shard is measured once per step");
}

std::optional<drop_reason> norm_clip::take_message(const envelope& e, effects& out) {
  const auto* s = std::get_if<norm_partials>(&e.body);
  if (!s) return drop_reason::unexpected;
  const auto& blocks = parts_.plan().blocks;
  if (s->block >= blocks.size() || !counts(blocks[s->block]) || e.h.src != parts_.plan().shard_of(blocks[s->block], parts_.group()))
    return drop_reason::misaddressed;
  if (e.h.step < next_) return drop_reason::outdated;
  return add(s->block, e.h.step, s->parts, out);
}

std::optional<drop_reason> norm_clip::add(std::uint32_t block, std::uint64_t step, std::vector<square_sum> parts, effects& out) {
  auto& r = rounds_[step];
  if (!r.parts.try_emplace(block, std::move(parts)).second) return drop_reason::repeated;
  if (r.parts.size() < expected_) return std::nullopt;
  auto done = std::move(r);
  rounds_.erase(step);
  next_ = step + 1;
  const auto all = sums_of_squares(done);
  for (auto& g : done.held) {
    g.clip = norm_clip_factor(parts_.config.clip_norm, all, 1.0 / g.packets);
    pass(std::move(g), out);
  }
  return std::nullopt;
}

// One sum per parameter, in layer order. Simulations without maths have no sums, and nothing is
// clipped.
std::vector<double> norm_clip::sums_of_squares(const round& r) const {
  std::vector<double> all;
  for (const auto& parts : parts_of_)
    if (const auto sum = sum_of_parts(r.parts, parts)) all.push_back(*sum);
  return all;
}

namespace {

bool begins_at_groups(const std::vector<param_block>& blocks, std::uint32_t param) {
  return std::all_of(blocks.begin(), blocks.end(),
                     [&](const param_block& b) { return b.param != param || (b.run == 0 && b.begin % squares_group == 0); });
}

}  // namespace

std::vector<norm_part> norm_parts(const std::vector<param_block>& blocks, std::uint32_t param, std::int64_t elements) {
  const bool whole = begins_at_groups(blocks, param);
  std::vector<norm_part> parts;
  std::map<std::vector<std::uint32_t>, std::size_t> part_of;  // by takers: no worker has two parts of a layer
  for (const auto& b : blocks) {
    if (b.param != param) continue;
    const auto [i, made] = part_of.try_emplace(whole ? std::vector<std::uint32_t>{} : b.takers, parts.size());
    if (made) parts.push_back({b.run > 0, whole ? elements : 0, {}});
    auto& part = parts[i->second];
    if (!whole) part.total += b.run > 0 ? b.count / b.run : b.count;
    part.blocks.push_back(b.id);
  }
  return parts;
}

place_in_part place_in_norm_part(const std::vector<param_block>& blocks, const param_block& b, std::int64_t elements) {
  for (const auto& part : norm_parts(blocks, b.param, elements)) {
    if (std::find(part.blocks.begin(), part.blocks.end(), b.id) == part.blocks.end()) continue;
    if (part.rows) return {b.begin / b.stride, part.total};
    const auto first =
        std::find_if(blocks.begin(), blocks.end(), [&](const param_block& x) { return x.id == part.blocks.front(); });
    return {b.begin - first->begin, part.total};
  }
  return {};
}

}  // namespace troupe
