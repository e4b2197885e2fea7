#include "runtime/sync/norm_parts.hpp"

#include <algorithm>
#include <map>

#include "runtime/reduce/norm.hpp"

namespace troupe {
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
