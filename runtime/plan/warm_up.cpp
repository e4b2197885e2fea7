#include "runtime/plan/warm_up.hpp"

#include <algorithm>
#include <set>
#include <utility>

namespace troupe {
namespace {

struct pipeline_place {
  std::set<std::uint32_t> nodes;
  std::vector<packet_range> packets;  // of each replica
};

pipeline_place place_of(const assignment& a) {
  pipeline_place p;
  std::set<std::pair<std::uint32_t, std::uint32_t>> seen;
  for (const auto& part : a.parts) {
    p.nodes.insert(part.node);
    if (seen.emplace(part.packets.first, part.packets.count).second) p.packets.push_back(part.packets);
  }
  return p;
}

// A loss on one of the nodes of a layer that is split by feature is not a pipeline stage by itself.
bool same_stage(const pipeline_place& a, const pipeline_place& b) {
  if (a.packets != b.packets) return false;
  return std::includes(a.nodes.begin(), a.nodes.end(), b.nodes.begin(), b.nodes.end()) ||
         std::includes(b.nodes.begin(), b.nodes.end(), a.nodes.begin(), a.nodes.end());
}

}  // namespace

weight_rule weight_rule_of(std::string_view name) {
  if (name == "stash") return weight_rule::stash;
  return name == "latest" ? weight_rule::latest : weight_rule::drain;
}

std::vector<std::uint32_t> warm_up_steps(const model_graph& g, const std::vector<assignment>& where, std::uint32_t packets) {
  std::vector<pipeline_place> places;
  for (const auto& a : where) places.push_back(place_of(a));
  // Layers are in topological order. From the loss backwards: the number of replicas of all stages
  // from a layer to the loss.
  std::vector<std::uint64_t> ahead(g.layers.size());
  for (std::size_t i = 0; i < g.layers.size(); ++i) ahead[i] = places[i].packets.size();
  for (std::size_t m = g.layers.size(); m-- > 0;) {
    if (!g.layers[m].in_train) continue;
    for (const auto& in : g.layers[m].inputs) {
      if (in.layer < 0) continue;
      const auto l = static_cast<std::size_t>(in.layer);
      const auto own = same_stage(places[l], places[m]) ? 0 : places[l].packets.size();
      ahead[l] = std::max<std::uint64_t>(ahead[l], ahead[m] + own);
    }
  }
  std::vector<std::uint32_t> steps;
  for (std::size_t i = 0; i < g.layers.size(); ++i) {
    const auto r = places[i].packets.size();
    const auto warm_up = (ahead[i] - 1) / r * r;  // packets of the stage
    steps.push_back(static_cast<std::uint32_t>((warm_up + packets - 1) / packets));
  }
  return steps;
}

}  // namespace troupe
