// The recoveries of a simulated job: what its coordinator's daemon reports of each, with the fault
// before it and the first step after it. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/cluster/controller/orders.hpp"
#include "runtime/messages/ids.hpp"

namespace troupe::sim {

struct recovery {
  recovered_event what;
  std::uint64_t step = 0;             // the job continues after it
  std::optional<time_point> failed;   // the last fault before it was noticed; none: the simulation injected none
  time_point noticed{};               // by the coordinator's daemon
  time_point begun{};                 // all roles are replaced
  std::optional<time_point> stepped;  // the first step is complete
};

class recovery_log {
 public:
  void fault(time_point now) { faults_.push_back(now); }
  // Returns the recovery whose first step this order reports.
  const recovery* take(const control::order& o, time_point now);
  const std::vector<recovery>& all() const { return all_; }

 private:
  std::vector<recovery> all_;
  std::vector<time_point> faults_;  // since the last one that a recovery has taken
};

}  // namespace troupe::sim
