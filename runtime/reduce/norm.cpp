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

void find_square_sums_of_rows(device& dev, const tensor& part, std::int64_t columns, std::int64_t first_row,
                              const square_sums& found) {
  found->clear();
  for (std::int64_t row = 0; row < part.count() / columns; ++row)
    add(dev, {static_cast<std::uint32_t>(first_row + row), 1}, part.reshaped({part.count()}).slice(row * columns, {columns}),
        found);
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

std::optional<double> sum_of_rows(std::vector<square_sum> parts, std::int64_t rows) {
  std::stable_sort(parts.begin(), parts.end(), [](const auto& a, const auto& b) { return a.node.first < b.node.first; });
  if (static_cast<std::int64_t>(parts.size()) != rows) return std::nullopt;
  double sum = 0;
  for (std::int64_t row = 0; row < rows; ++row) {
    const auto& p = parts[static_cast<std::size_t>(row)];
    if (p.node.first != row) return std::nullopt;
    sum += p.sum;
  }
  return sum;
}

}  // namespace troupe
