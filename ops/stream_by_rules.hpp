// The streams that compute a job's tasks.
#pragma once

#include <memory>

#include "ops/device.hpp"

namespace troupe {

// Returns another stream of the device, with a job's rules. Null if the device has no queues.
inline std::shared_ptr<device> stream_by_rules(device& d, const maths_rules& r) {
  auto made = d.make_stream();
  if (made) made->set_rules(r);
  return made;
}

}  // namespace troupe
