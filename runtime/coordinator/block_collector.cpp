#include "runtime/coordinator/block_collector.hpp"

#include <algorithm>
#include <set>

#include "ops/device.hpp"
#include "ops/finite.hpp"
#include "runtime/base/invariant.hpp"
#include "runtime/messages/fits.hpp"
#include "runtime/plan/block_copy.hpp"

namespace troupe {
namespace {

void join_pieces(const model_graph& g, collection& c, device& d) {
  std::size_t index = 0;
  for (const auto& l : g.layers)
    for (std::size_t k = 0; !c.pieces.empty() && k < l.carries.size(); ++k) {
      auto& whole = c.carried[index++].second;
      for (const auto& piece : c.pieces) {
        if (piece.layer != l.index) continue;
        const auto& got = *c.blocks[piece.block];
        const auto& from = k == 0 ? got.value : got.rule.at(k - 1);
        whole.back(d);
        auto part = carried_sequences(whole, l.carries[k].dims, piece.packet);
        d.copy(from, part);
      }
    }
}

// Joins one parameter and its rule states into the tensors `into`.
void join_blocks(const model_graph& g, const job_plan& plan, std::size_t param, collection& c, std::vector<tensor*> into,
                 device& d) {
  const auto& spec = g.params[param].spec;
  for (const auto& b : plan.blocks) {
    if (b.param != param) continue;
    const auto& got = *c.blocks[b.id];
    for (std::size_t k = 0; k < into.size(); ++k) {
      const auto& from = k == 0 ? got.value : got.rule[k - 1];
      if (b.count == spec.dims.count() && b.run == 0) {  // the whole parameter: no copy
        *into[k] = from.reshaped(spec.dims);
        continue;
      }
      into[k]->back(d);
      copy_block_in(d, from, b, *into[k]);
    }
  }
}

}  // namespace

named_tensors collection::all() const {
  auto list = weights;
  list.insert(list.end(), rule.begin(), rule.end());
  list.insert(list.end(), carried.begin(), carried.end());
  return list;
}

named_tensors collection::weights_or_average(const model_graph& g, bool average) const {
  auto list = weights;
  if (!average) return list;
  std::size_t next = 0;  // in `rule`, which has the parameters in the same order
  for (std::size_t i = 0; i < list.size(); ++i) {
    auto& [name, value] = list[i];
    const tensor* last = nullptr;
    for (; next < rule.size() && rule[next].first.starts_with(name + "@"); ++next) last = &rule[next].second;
    if (last && has_average(g.params[i])) value = *last;
  }
  return list;
}

void collection::look() {
  for (const auto* list : {&weights, &rule, &carried})
    for (const auto& [name, value] : *list)
      if (not_finite.empty() && !all_finite(value)) not_finite = name;
}

std::map<std::string, std::uint64_t> collection::updates_by_param(const model_graph& g, const job_plan& p) const {
  std::map<std::string, std::uint64_t> most;
  for (const auto& b : p.blocks) {
    auto& u = most[g.params[b.param].full_name];
    u = std::max(u, updates[b.id]);
  }
  return most;
}

block_collector::block_collector(std::shared_ptr<const model_graph> g, std::shared_ptr<const job_plan> p,
                                 std::vector<std::string> rule_states, dtype type)
    : graph_(std::move(g)), plan_(std::move(p)), rule_states_(std::move(rule_states)), type_(type) {}

void block_collector::begin(bool carried, bool with_rule) {
  ++request_;
  with_rule_ = with_rule;
  all_ = std::make_shared<collection>();
  if (carried) all_->pieces = carried_pieces(*graph_, *plan_);
  const auto blocks = plan_->blocks.size() + all_->pieces.size();
  all_->blocks.resize(blocks);
  all_->updates.resize(blocks);
  missing_ = static_cast<std::uint32_t>(blocks);
}

std::vector<role_id> block_collector::asked_stages() const {
  std::vector<role_id> list;
  std::set<role_id> asked;
  for (const auto& piece : all_->pieces)
    if (asked.insert(piece.stage).second) list.push_back(piece.stage);
  return list;
}

std::vector<role_id> block_collector::asked_shards() const {
  std::vector<role_id> list;
  for (auto s : plan_->shards)
    if ((*plan_)[s].group == 0) list.push_back(s);
  return list;
}

bool block_collector::take(const state& s) {
  if (!all_ || s.request != request_ || s.block >= all_->blocks.size() || all_->blocks[s.block]) return false;
  const auto& blocks = plan_->blocks;
  if (s.block < blocks.size() &&
      (!holds(s.value, blocks[s.block].count, type_) || s.rule.size() != (with_rule_ ? rule_states_.size() : 0) ||
       !all_hold(s.rule, blocks[s.block].count, type_)))
    return false;
  all_->blocks[s.block] = s;
  all_->updates[s.block] = s.updates;
  invariant(missing_ > 0, "a block that is new was missing");
  if (--missing_ > 0) return false;
  name();
  return true;
}

// Called when all blocks have arrived: declares the tensors of the result, in layer order. In a
// simulation without maths they stay declared.
void block_collector::name() {
  auto& c = *all_;
  for (const auto& p : graph_->params) {
    c.weights.emplace_back(p.full_name, tensor::declare(p.spec.dims, type_));
    for (const auto& b : plan_->blocks)
      if (with_rule_ && &graph_->params[b.param] == &p && b.begin == 0)
        for (const auto& state : rule_states_) c.rule.emplace_back(p.full_name + "@" + state, tensor::declare(p.spec.dims, type_));
  }
  const auto empty = [&](const carried_piece& piece) { return !c.blocks[piece.block]->value; };
  if (std::any_of(c.pieces.begin(), c.pieces.end(), empty)) return c.pieces.clear();
  for (const auto& l : graph_->layers)
    for (std::size_t k = 0; !c.pieces.empty() && k < l.carries.size(); ++k)
      c.carried.emplace_back(carried_name(l, k), tensor::declare(carried_shape(l, k, plan_->packets), wide_of(type_)));
}

task_work block_collector::join() {
  return [graph = graph_, plan = plan_, all = all_](task_context& ctx) {
    auto& c = *all;
    join_pieces(*graph, c, ctx.dev);
    std::size_t rule = 0;
    for (std::size_t p = 0; p < graph->params.size(); ++p) {
      std::vector<tensor*> into{&c.weights[p].second};
      while (rule < c.rule.size() && c.rule[rule].first.starts_with(c.weights[p].first + "@"))
        into.push_back(&c.rule[rule++].second);
      join_blocks(*graph, *plan, p, c, into, ctx.dev);
    }
    for (auto* list : {&c.weights, &c.rule, &c.carried})
      for (auto& [name, value] : *list) {
        c.fetched = c.fetched || !value.space().host();
        value = brought_home(ctx.dev, value);
      }
    if (!c.fetched) c.look();
  };
}

collection block_collector::joined() {
  auto c = std::move(*all_);
  all_.reset();
  if (c.fetched) c.look();
  return c;
}

}  // namespace troupe
