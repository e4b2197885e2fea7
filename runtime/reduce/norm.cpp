#include "runtime/reduce/norm.hpp"

#include <algorithm>
#include <cassert>

#include "ops/device.hpp"

namespace troupe {
namespace {

std::uint32_t groups(std::int64_t elements) { return static_cast<std::uint32_t>((elements + squares_group - 1) / squares_group); }

void add(device& dev, tree_node node, const tensor& of, const square_sums& found) {
  found->push_back({node, 0.0});
  tensor sum = tensor::allocate(dev, shape{1}, dtype::f64);
  dev.sum_squares(of, sum);
  dev.later(sum, [found, i = found->size() - 1](double v) { (*found)[i].sum = v; });
}

}  // namespace

void find_square_sums(device& dev, const tensor& part, std::int64_t begin, std::int64_t total, const square_sums& found) {
  const auto end = begin + part.count();
  assert(begin % squares_group == 0 && (end % squares_group == 0 || end == total) && end <= total);
  found->clear();
  for (const auto& node : cover(groups(begin), groups(end) - groups(begin), groups(total))) {
    const auto first = std::int64_t{node.first} * squares_group;
    const auto count = std::min(std::int64_t{node.span} * squares_group, total - first);
    add(dev, node, part.reshaped({part.count()}).slice(first - begin, {count}), found);
  }
}

void find_square_sum(device& dev, const tensor& whole, const square_sums& found) {
  found->clear();
  add(dev, root_of(1), whole, found);
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
