// Makes the list of happenings of a failed simulation shorter and simpler, while the simulation
// still fails: delta debugging, the algorithm ddmin of Zeller and Hildebrandt 2002, "Simplifying
// and isolating failure-inducing input", figure 1.
//
// 1. Removes happenings, first halves of the list, then smaller parts, until none can be removed.
// 2. Makes each one simpler: fewer nodes, a cut of one plane or one way, a shorter length, rounder
//    times and factors.
// 3. Repeats both until nothing changes.
// Pure: `fails` runs the simulation. It should be deterministic; if it is not, the result is the
// last list that failed.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "runtime/sim/schedule.hpp"

namespace troupe::sim {

using fails_with = std::function<bool(const std::vector<happening>&)>;

// Returns a list, sorted by time, for which `fails` has returned true; all of `list` if that does
// not fail or `most_runs` is 0. Calls `fails` at most `most_runs` times. If fewer calls were
// enough, the list fails no more without any one of its happenings.
std::vector<happening> shrink(std::vector<happening> list, const fails_with& fails, std::size_t most_runs);

}  // namespace troupe::sim
