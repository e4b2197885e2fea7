// How long a simulated daemon takes for what is not a role's work. Virtual times.
#pragma once

#include "runtime/messages/ids.hpp"
#include "runtime/sim/lines.hpp"
#include "runtime/sim/random.hpp"

namespace troupe::sim {

// A time that is drawn anew for each use.
struct range {
  duration least{}, most{};
  duration drawn(random& r) const {
    return least + duration(static_cast<std::int64_t>(r.below(static_cast<std::uint64_t>((most - least).count()) + 1)));
  }
  range times(double factor) const {
    const auto scaled = [factor](duration d) {
      return duration(static_cast<std::int64_t>(static_cast<double>(d.count()) * factor));
    };
    return {scaled(least), scaled(most)};
  }
};

struct daemon_times {
  range control{std::chrono::microseconds(50), std::chrono::milliseconds(2)};  // of a message of the control plane on its way
  range plan{std::chrono::milliseconds(1), std::chrono::milliseconds(20)};     // to read a job and make a plan
  range roles{std::chrono::milliseconds(1), std::chrono::milliseconds(10)};    // to spawn or replace the roles of a node
  range end{std::chrono::microseconds(10), std::chrono::milliseconds(5)};      // to end the roles of a node
  range store{std::chrono::milliseconds(1), std::chrono::milliseconds(40)};    // to write a checkpoint or weights
  double store_bytes_per_second = 0;                                           // in addition, by size; 0: size costs no time
  double state_bytes_per_second = 0;  // to read a checkpoint, and to fill the memory of a new shard; 0: size costs no time
  range boot{std::chrono::milliseconds(1), std::chrono::milliseconds(300)};  // of the first start of each daemon
  line_times lines;
};

}  // namespace troupe::sim
