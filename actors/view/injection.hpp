// A fault that a person has a node of a running cluster suffer (docs/failures.md, "Injecting
// faults"): which, where, how long, by how much. Pure.
//
// It travels as a command named "inject" from the REPL to the coordinator's daemon, and as a
// message from there to the node.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/messages/control.hpp"
#include "runtime/node/pki/roles.hpp"
#include "runtime/spec/job_spec.hpp"

namespace troupe {

enum class fault_kind : std::uint8_t {
  kill,       // the daemon ends as by kill -9
  stop,       // SIGSTOP, and SIGCONT after the time
  drop,       // nothing passes, either way, on both planes
  delay,      // what comes on the data plane is handed on later
  slow_disk,  // every write and sync of checkpoints, weights and journal takes longer
};
constexpr std::uint8_t fault_kinds = 5;
using fault_time = std::chrono::milliseconds;

constexpr fault_time usual_fault_time{10'000}, shortest_fault_time{1}, longest_fault_time{600'000}, largest_fault_amount{10'000};

struct injection {
  fault_kind what = fault_kind::kill;
  std::string node;
  fault_time lasts{0};  // 0: kill
  fault_time by{0};     // of delay and slow-disk
};

const char* text_of(fault_kind k);
std::optional<fault_kind> fault_named(std::string_view word);
std::vector<std::string> fault_words();
bool fault_lasts(fault_kind k);
fault_time usual_fault_amount(fault_kind k);  // 0: it has none
std::string fault_time_text(fault_time t);    // "50 ms", "10 s", "2 min"
std::string text_of(const injection& i);      // "delay by 50 ms for 10 s"

command to_command(const injection& i);
std::optional<injection> injection_of(const command& c);

// Why these times cannot be; empty: they can.
std::string why_not_for_so_long(const injection& i);
// Why `who` may not; empty: it may. `allowed`: by the cluster file.
std::string why_not_inject(const person& who, bool allowed, const cluster_spec& cluster, const injection& i);

}  // namespace troupe
