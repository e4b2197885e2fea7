#include "runtime/plan/carried.hpp"

#include <algorithm>

namespace troupe {

namespace {

// By packet: the first stage that trains this layer with it.
std::vector<role_id> stages_by_packet(const job_plan& p, std::uint32_t layer) {
  std::vector<role_id> stages(p.packets, no_role);
  for (const auto& r : p.roles) {
    if (!r.trains() || std::find(r.layers.begin(), r.layers.end(), layer) == r.layers.end()) continue;
    const auto end = std::min<std::uint64_t>(std::uint64_t{r.packets.first} + r.packets.count, p.packets);
    for (std::uint64_t k = r.packets.first; k < end; ++k)
      if (stages[k] == no_role) stages[k] = r.id;
  }
  return stages;
}

}  // namespace

std::vector<carried_piece> carried_pieces(const model_graph& g, const job_plan& p) {
  std::vector<carried_piece> list;
  for (const auto& l : g.layers) {
    if (l.carries.empty()) continue;
    const auto stages = stages_by_packet(p, l.index);
    for (std::uint32_t k = 0; k < p.packets; ++k) {
      const auto block = static_cast<std::uint32_t>(p.blocks.size() + list.size());
      list.push_back({block, l.index, k, stages[k]});
    }
  }
  return list;
}

std::string carried_name(const graph_layer& l, std::size_t carry) { return l.name + "." + l.carries[carry].name + "@carried"; }

shape carried_shape(const graph_layer& l, std::size_t carry, std::uint32_t packets) {
  auto s = l.carries[carry].dims;
  s.set(0, s[0] * packets);
  return s;
}

tensor carried_sequences(const tensor& whole, const shape& dims, std::uint32_t packet) {
  return whole.slice(packet * dims.count(), dims);
}

tensors carried_from(const std::vector<std::pair<std::string, tensor>>& named, const graph_layer& l, std::uint32_t packet) {
  tensors mine;
  for (std::size_t k = 0; k < l.carries.size(); ++k) {
    const auto name = carried_name(l, k);
    const auto at = std::find_if(named.begin(), named.end(), [&](const auto& n) { return n.first == name; });
    if (at == named.end()) return {};
    mine.push_back(carried_sequences(at->second, l.carries[k].dims, packet));
  }
  return mine;
}

}  // namespace troupe
