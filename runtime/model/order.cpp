#include "runtime/model/order.hpp"

#include <algorithm>
#include <functional>
#include <queue>

namespace troupe {

// Kahn 1962, with a heap to break ties.
std::vector<std::size_t> topological_order(const std::vector<std::vector<std::size_t>>& inputs) {
  std::vector<std::size_t> missing(inputs.size()), order;
  std::vector<std::vector<std::size_t>> readers(inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    missing[i] = inputs[i].size();
    for (auto from : inputs[i]) readers[from].push_back(i);
  }
  std::priority_queue<std::size_t, std::vector<std::size_t>, std::greater<>> unblocked;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (missing[i] == 0) unblocked.push(i);
  while (!unblocked.empty()) {
    order.push_back(unblocked.top());
    unblocked.pop();
    for (auto r : readers[order.back()])
      if (--missing[r] == 0) unblocked.push(r);
  }
  return order;
}

// Every remaining layer has a remaining input, so a walk from input to input must revisit a layer.
std::vector<std::size_t> find_cycle(const std::vector<std::vector<std::size_t>>& inputs, const std::vector<std::size_t>& order) {
  std::vector<bool> left(inputs.size(), true);
  for (auto i : order) left[i] = false;
  std::vector<std::size_t> path;
  auto at = static_cast<std::size_t>(std::find(left.begin(), left.end(), true) - left.begin());
  if (at == left.size()) return path;
  while (std::find(path.begin(), path.end(), at) == path.end()) {
    path.push_back(at);
    at = *std::find_if(inputs[at].begin(), inputs[at].end(), [&](std::size_t i) { return left[i]; });
  }
  path.erase(path.begin(), std::find(path.begin(), path.end(), at));
  std::reverse(path.begin(), path.end());
  std::rotate(path.begin(), std::min_element(path.begin(), path.end()), path.end());
  return path;
}

}  // namespace troupe
