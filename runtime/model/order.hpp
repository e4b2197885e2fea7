// Sorting layers so that every one comes after its inputs.
#pragma once

#include <cstddef>
#include <vector>

namespace troupe {

// inputs[i]: the layers that layer i reads. Of the layers whose inputs have gone the first goes
// first; layers in a cycle, or behind one, are left out.
std::vector<std::size_t> topological_order(const std::vector<std::vector<std::size_t>>& inputs);

// One cycle among the layers that `order` leaves out, in the direction data flows, from its lowest
// number on; empty when it leaves none out.
std::vector<std::size_t> find_cycle(const std::vector<std::vector<std::size_t>>& inputs, const std::vector<std::size_t>& order);

}  // namespace troupe
