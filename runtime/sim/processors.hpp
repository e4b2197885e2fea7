// The cores of every node, and the time that a task takes on one: a task begins on the core that is
// free first. Pure; draws stragglers from its own random numbers.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/role.hpp"
#include "runtime/sim/models.hpp"
#include "runtime/sim/random.hpp"

namespace troupe::sim {

class processors {
 public:
  processors(compute_model m, std::uint64_t seed) : model_(std::move(m)), random_(seed ^ 0x70726f636573736full) {}

  // Returns the task's time on a node that is neither a straggler nor slowed down by a fault.
  duration time_of(const task_cost& c) const;
  // Returns that time on this node, with the factors of a drawn straggler and of a slow node.
  duration drawn(std::uint32_t node, duration time, fault_counts& counts);

  struct turn {
    time_point begin, end;
  };
  turn run(std::uint32_t node, duration time, time_point now);
  // Makes all cores of a crashed node idle.
  void clear(std::uint32_t node, time_point now);

 private:
  std::vector<time_point>& cores_of(std::uint32_t node);

  compute_model model_;
  random random_;
  std::vector<std::vector<time_point>> cores_;
  std::vector<double> slow_;
};

}  // namespace troupe::sim
