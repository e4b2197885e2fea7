// Where memory lies, and whether what was written there is there yet.
//
// A device with queues (lanes, device.hpp) returns from a primitive before it has run. What it
// writes carries a `completion`; whoever goes on with it on the same device need not look: lanes
// wait for each other. The host may look at memory of its own space only, and gets what lies
// elsewhere by device::fetch() and device::later(). On the CPU everything lies in the host's space
// and is there at once.
#pragma once

#include <cstdint>

namespace troupe {

struct memory_space {
  std::int16_t device = -1;  // number of the device whose memory it is; -1: the host's
  bool host() const { return device < 0; }
  friend bool operator==(memory_space, memory_space) = default;
};

// A point in a lane's queue. Any thread.
struct completion {
  virtual ~completion() = default;
  virtual bool done() const = 0;
  virtual void wait() = 0;
};

}  // namespace troupe
