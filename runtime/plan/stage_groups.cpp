#include "runtime/plan/stage_groups.hpp"

#include <algorithm>
#include <memory>

#include "runtime/base/wording.hpp"
#include "runtime/model/maths_steps.hpp"

namespace troupe {
namespace {

class fuser {
 public:
  fuser(const model_graph& g, const std::set<std::string>& own_stage, const std::vector<assignment>& where)
      : g_(g), own_(own_stage), where_(where) {}

  std::vector<std::vector<std::uint32_t>> groups(grouping how) {
    std::vector<std::vector<std::uint32_t>> out;
    std::shared_ptr<const layer> maths;  // of the last run of layers that are computed as one, starting with `first`
    const graph_layer* first = nullptr;
    for (const auto& l : g_.layers) {
      const bool wanted = !out.empty() && awaited(out.back());
      bool joins = !out.empty() && (how.all || how.steps || wanted) && !alone(l) && !alone(g_.layers[out.back().back()]) &&
                   lies_as(l, out.back()) && keeps_order(l, out.back().front());
      auto both = joins && how.steps ? absorbed(g_, *first, g_.layers[out.back().back()], *maths, l) : nullptr;
      joins = joins && (both || ((how.all || wanted) && l.gather == gathers(out.back())));
      if (joins && both)
        maths = std::move(both);
      else
        maths = l.maths, first = &l;
      if (!joins) out.emplace_back();
      out.back().push_back(l.index);
    }
    return out;
  }

 private:
  bool alone(const graph_layer& l) const { return own_.count(l.type) > 0 || (l.maths && l.maths->joint() != nullptr); }

  // Its packets wait for each other, so only layers that benefit share such a stage.
  bool gathers(const std::vector<std::uint32_t>& group) const {
    return std::any_of(group.begin(), group.end(), [&](std::uint32_t l) { return g_.layers[l].gather; });
  }

  // A layer of the group that is recomputed in backward has a reader after the group. In the same
  // stage, that reader need not keep its input as long.
  bool awaited(const std::vector<std::uint32_t>& group) const {
    return std::any_of(group.begin(), group.end(), [&](std::uint32_t l) {
      if (!g_.layers[l].recompute) return false;
      return std::any_of(g_.layers.begin() + group.back() + 1, g_.layers.end(), [&](const graph_layer& reader) {
        return std::any_of(reader.inputs.begin(), reader.inputs.end(),
                           [&](tensor_ref t) { return t.layer == static_cast<std::int32_t>(l); });
      });
    });
  }

  // Same nodes and packets, and each part reads of the group's tensors what the same part computes.
  bool lies_as(const graph_layer& l, const std::vector<std::uint32_t>& group) const {
    const auto& here = where_[l.index];
    const auto& there = where_[group.back()];
    const auto alike = [](const layer_part& a, const layer_part& b) {
      return a.node == b.node && a.device == b.device && a.packets == b.packets && a.worker == b.worker;
    };
    if (here.kind != there.kind || !std::equal(here.parts.begin(), here.parts.end(), there.parts.begin(), there.parts.end(), alike))
      return false;
    for (std::size_t k = 0; k < l.inputs.size(); ++k) {
      const auto from = l.inputs[k].layer;
      if (from < 0 || std::find(group.begin(), group.end(), static_cast<std::uint32_t>(from)) == group.end()) continue;
      for (std::size_t p = 0; p < here.parts.size(); ++p)
        if (!(needed(l, k, here.parts[p]) == made(g_, l.inputs[k], where_[static_cast<std::size_t>(from)].parts[p].features)))
          return false;
    }
    return true;
  }

  // Gradients of a tensor's consumers are added in layer order (ops/reader_sum.hpp). A stage adds
  // those of its own consumers first. With three or more consumers it must therefore host a prefix
  // of that order, or a single one: (a + b) + c, never a + (b + c). Two commute.
  bool keeps_order(const graph_layer& l, std::uint32_t first_in_group) const {
    for (std::size_t k = 0; k < l.inputs.size(); ++k) {
      if (!l.grad_in_wanted[k]) continue;
      std::vector<std::uint32_t> takers;
      for (const auto& c : g_.consumers(l.inputs[k]))
        if (g_.layers[static_cast<std::size_t>(c.layer)].grad_in_wanted[c.output])
          takers.push_back(static_cast<std::uint32_t>(c.layer));
      if (takers.size() < 3 || takers.front() >= first_in_group) continue;
      if (std::any_of(takers.begin(), takers.end(), [&](auto t) { return t >= first_in_group && t < l.index; })) return false;
    }
    return true;
  }

  const model_graph& g_;
  const std::set<std::string>& own_;
  const std::vector<assignment>& where_;
};

}  // namespace

std::vector<std::vector<std::uint32_t>> stage_groups(const model_graph& g, const std::set<std::string>& own_stage,
                                                     const std::vector<assignment>& where, grouping how) {
  return fuser(g, own_stage, where).groups(how);
}

diagnostics cannot_recompute(const model_graph& g, const std::set<std::string>& own_stage, weight_rule rule) {
  diagnostics wrong;
  for (const auto& l : g.layers) {
    if (!l.recompute || !l.in_train) continue;
    const auto at = position_of(l.spec->key_at, "recompute", l.spec->at);
    const auto name = "layer " + in_quotes(l.name) + ": recompute = true ";
    if (own_stage.count(l.type) || l.maths->joint())
      wrong.push_back({at, name + "is not supported for layers that compute several packets together"});
    else if (rule == weight_rule::latest && !l.params.empty())
      wrong.push_back(
          {at, name + "needs the weights of its forward in backward; pipeline.weights = \"latest\" does not keep them"});
  }
  return wrong;
}

diagnostics cannot_gather(const model_graph& g, weight_rule rule) {
  diagnostics wrong;
  for (const auto& l : g.layers) {
    if (!l.gather) continue;
    const auto refuse = [&](const std::string& why) {
      wrong.push_back({position_of(l.spec->key_at, "gather", l.spec->at), "layer " + in_quotes(l.name) + ": gather = true " + why});
    };
    if (!l.maths || !l.maths->gathered())
      refuse("needs a layer that can compute several packets as one (linear), not " + l.type);
    else if (l.recompute)
      refuse("cannot be combined with recompute = true");
    else if (rule != weight_rule::drain)
      refuse("needs the same weights for all packets of a step: set pipeline.weights = \"drain\"");
  }
  return wrong;
}

}  // namespace troupe
