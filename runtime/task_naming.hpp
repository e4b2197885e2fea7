// A role that knows which packet each of its tasks is for. Hosts ask it when they are given the task, between two on() of the role, so that a task
// that does not end can be named by its packet.
#pragma once

#include <cstdint>
#include <optional>

#include "runtime/messages/message.hpp"

namespace troupe {

class task_naming {
 public:
  virtual ~task_naming() = default;
  // Of the packet (step, packet); nothing: the task is not one packet's.
  virtual std::optional<header> packet_of_task(std::uint64_t token) const = 0;
};

}  // namespace troupe
