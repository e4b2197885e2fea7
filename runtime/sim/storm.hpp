// Random faults of the daemons of a cluster, drawn from a seed: deaths, stops, drains, cuts, full
// and slow disks. For `troupe sim --seeds` and tests, which run a job under one storm after
// another.
// Pure: the same seed and shape give the same storm.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/sim/schedule.hpp"

namespace troupe::sim {

struct storm_shape {
  std::uint32_t nodes = 3;
  duration from{1'500'000'000};  // faults begin in [from, from + span]
  duration span{10'000'000'000};
  std::uint32_t least = 1, most = 4;  // number of happenings; fewer if `most_away` leaves no place
  double bursts = 0.25;               // probability that one begins within 2 s of the one before
  bool coordinator = true;            // node 0 is hit like all others; false: never
  bool all_return = false;            // no daemon stays away; else a third of the dead do, but never node 0's
  // The number of nodes that may be away (dead, leaving, stopped or cut off) at one time, counting
  // 10 s that others need after each return; 0: no limit. With N replicas, N - 1 lose no
  // parameters.
  std::uint32_t most_away = 0;
  // Kinds that are drawn, of those at a moment and of partition, cut, slow, slow_disk and
  // disk_full. The relative frequencies are 6 for kill, 3 for lose, 2 for stop and drain, 4 for cut
  // and 1 for the others.
  std::vector<fault_kind> kinds{fault_kind::kill, fault_kind::lose, fault_kind::stop,      fault_kind::drain,
                                fault_kind::cut,  fault_kind::slow, fault_kind::slow_disk, fault_kind::disk_full};
};

// Sorted by time. Empty if the shape leaves no node to hit.
std::vector<happening> random_storm(std::uint64_t seed, const storm_shape& shape);

}  // namespace troupe::sim
