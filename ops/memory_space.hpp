// Memory spaces, and completion of pending writes.
//
// A device with queues (streams, device.hpp) returns from a primitive before it has run. Memory
// that the primitive writes carries a `completion`. Further primitives on the same device need not
// check it, since streams wait for each other. The host may read only memory of its own space; it
// reads other memory with device::fetch() and device::later(). On the CPU all memory is in the
// host's space and all writes are complete on return.
#pragma once

#include <cstdint>

namespace troupe {

struct memory_space {
  std::int16_t device = -1;  // number of the device that owns the memory; -1: the host
  bool host() const { return device < 0; }
  friend bool operator==(memory_space, memory_space) = default;
};

// A point in a stream's queue. Safe from any thread.
struct completion {
  virtual ~completion() = default;
  virtual bool done() const = 0;
  virtual void wait() = 0;
};

}  // namespace troupe
