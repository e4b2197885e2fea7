#include "runtime/reduce/norm.hpp"

#include <algorithm>
#include <cassert>

#include "ops/device.hpp"

namespace troupe {
namespace {

std::uint32_t groups(std::int64_t elements) { return static_cast<std::uint32_t>((elements + squares_group - 1) / squares_group); }

}  // namespace

std::vector<square_sum> square_sums(device& dev, const tensor& part, std::int64_t begin, std::int64_t total) {
  const auto end = begin + part.count();
  assert(begin % squares_group == 0 && (end % squares_group == 0 || end == total) && end <= total);
  std::vector<square_sum> all;
  for (const auto& node : cover(groups(begin), groups(end) - groups(begin), groups(total))) {
    const auto first = std::int64_t{node.first} * squares_group;
    const auto count = std::min(std::int64_t{node.span} * squares_group, total - first);
    all.push_back({node, dev.sum_squares(part.reshaped({part.count()}).slice(first - begin, {count}))});
  }
  return all;
}

std::optional<double> sum_of_squares(const std::vector<square_sum>& parts, std::int64_t total) {
  if (total == 0) return 0.0;
  packet_tree<double> tree(groups(total));
  for (const auto& p : parts) {
    if (!well_formed(p.node, groups(total))) return std::nullopt;
    tree.add(p.node, p.sum, {}, [](double a, double b) { return a + b; });
  }
  const auto* sum = tree.find(root_of(groups(total)));
  return sum ? std::optional(*sum) : std::nullopt;
}

}  // namespace troupe
