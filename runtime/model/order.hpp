// Sorts layers topologically.
#pragma once

#include <cstddef>
#include <vector>

namespace troupe {

// inputs[i]: the layers that layer i reads. Among layers whose inputs are all placed, the lowest
// number comes first. Layers in a cycle, or that depend on one, are left out.
std::vector<std::size_t> topological_order(const std::vector<std::vector<std::size_t>>& inputs);

// One cycle among the layers that `order` leaves out, in the direction of data flow, starting at
// its lowest number. Empty if `order` contains all layers.
std::vector<std::size_t> find_cycle(const std::vector<std::vector<std::size_t>>& inputs, const std::vector<std::size_t>& order);

}  // namespace troupe
