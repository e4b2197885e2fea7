// An event of a job of a cluster, and the message that carries it to the job's followers.
// Threads: values.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/base/result.hpp"
#include "runtime/cluster/messages.hpp"
#include "runtime/messages/event.hpp"

namespace troupe {

struct job_event {
  std::uint32_t job = 0;
  event_effect event;
};

namespace control {

said to_message(const job_event& e);
// Returns the event, or what is wrong with the message.
expected<job_event> to_event(const said& m);

}  // namespace control
}  // namespace troupe
