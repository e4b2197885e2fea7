// What roles did, as hosts record it while they run: messages, tasks and states, for traces and for
// the question what happened before a job got stuck.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "runtime/messages/message.hpp"
#include "runtime/role.hpp"

namespace troupe {

struct activity {
  enum class kind_of : std::uint8_t {
    received,  // a role handled a message
    sent,      // a role sent a message
    task,      // a task of a role is over
    status,    // a role has published its state
  };
  time_point at{};  // since the recorder's beginning; of a task: when it began
  kind_of kind = kind_of::received;
  // received, sent: index of the body in troupe::message. task: its kind, by task_kinds. status:
  // the wait_kind.
  std::uint8_t what = 0;
  std::uint32_t job = 0;
  role_id role = no_role, peer = no_role;  // peer: source or destination of a message
  std::uint64_t id = 0;                    // header::id of the packet of a message or task; 0: none
  // received, sent: number of the message among those of its source (header::trace). task: the
  // nanoseconds that it took. status: packets that consumers still accept.
  std::uint64_t value = 0;
  std::uint64_t step = 0;
  std::uint32_t packet = 0;  // index in its step. status: packets bound to sub-solvers
  std::uint32_t size = 0;    // received, sent: bytes of the tensors, 2^32 - 1 if more. status: messages queued in the role
};
static_assert(std::is_trivially_copyable_v<activity> && sizeof(activity) == 56);

// A role has received or sent `e`.
activity activity_of_message(activity::kind_of kind, const envelope& e);
// A task of a role is over. `packet`: that it worked on.
activity activity_of_task(role_id role, const char* kind, const std::optional<header>& packet, duration took);
activity activity_of_status(role_id role, const role_status& s);

// Numbers for the kinds of tasks, which are string literals. A process has few; from the 255th on
// they are "other". Threads: any.
namespace task_kinds {
std::uint8_t number_of(const char* kind);
const char* name_of(std::uint8_t number);
// The names of all numbers so far, for another process.
std::vector<std::string> names();
// A number here for a kind of another process.
std::uint8_t number_of_text(const std::string& kind);
}  // namespace task_kinds

}  // namespace troupe
