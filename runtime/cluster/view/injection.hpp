// A fault to inject into a node of a running cluster (docs/failures.md, "Injecting faults"): its
// kind, node, duration and amount. Pure.
//
// The REPL passes it to the coordinator's daemon (repl_backend::inject), which sends a message to
// the node.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/access/roles.hpp"
#include "runtime/base/result.hpp"
#include "runtime/spec/job_spec.hpp"

namespace troupe {

enum class fault_kind : std::uint8_t {
  kill,       // ends the daemon as kill -9 does
  stop,       // SIGSTOP, and SIGCONT after `lasts`
  drop,       // drops all messages, in both directions, on both planes
  delay,      // delays received messages of the data plane by `by`
  slow_disk,  // delays every write and sync of checkpoints, weights and journal by `by`
};
constexpr std::uint8_t fault_kinds = 5;
using fault_time = std::chrono::milliseconds;

constexpr fault_time usual_fault_time{10'000}, shortest_fault_time{1}, longest_fault_time{600'000}, largest_fault_amount{10'000};

struct injection {
  fault_kind what = fault_kind::kill;
  std::string node;
  fault_time lasts{0};  // 0: kill
  fault_time by{0};     // for delay and slow-disk
};

const char* text_of(fault_kind k);
std::optional<fault_kind> fault_named(std::string_view word);
std::vector<std::string> fault_words();
bool fault_lasts(fault_kind k);
fault_time usual_fault_amount(fault_kind k);  // default of `by`; 0: the fault has none
std::string fault_time_text(fault_time t);    // "50 ms", "10 s", "2 min"
std::string text_of(const injection& i);      // "delay by 50 ms for 10 s"

// An error if a time is out of range.
expected<void> check_fault_times(const injection& i);
// An error if `who` may not inject this fault. `allowed`: the cluster file permits it.
expected<void> check_injection(const person& who, bool allowed, const cluster_spec& cluster, const injection& i);

}  // namespace troupe
