// Data that describes a simulated cluster: network, compute, disks, faults. Read from TOML by
// runtime/node/config/sim_file, or written in a test. All times are virtual.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "runtime/messages/ids.hpp"

namespace troupe::sim {

enum class fabric_kind : std::uint8_t {
  uniform,  // every message draws its latency; no links, so no contention. Makes every order of delivery possible. For tests.
  star,     // every node has one full-duplex link to one switch
  tree,     // racks of `rack` nodes, each with a full-duplex uplink to one core switch
};

// Time on the wire.
struct network_model {
  // uniform: latency in [least, most]. All kinds: `local` between roles of one node.
  duration least{1000}, most{200000};
  duration local{200};
  double bytes_per_second = 0;  // of a link (uniform: per message); 0: the size costs no time
  bool shuffle_local = true;    // uniform: draw latencies between roles of one node too

  fabric_kind fabric = fabric_kind::uniform;
  duration latency{5000};              // of one link
  duration jitter{};                   // extra latency per message, drawn from [0, jitter]; a pair of nodes keeps its order
  bool cut_through = true;             // switches forward a message while they receive it; false: store and forward
  bool full_duplex = true;             // false: both directions of a link share its bandwidth
  std::uint32_t rack = 16;             // tree: nodes per rack
  double oversubscription = 1;         // tree: an uplink has rack * bytes_per_second / oversubscription
  double uplink_bytes_per_second = 0;  // tree: an uplink has this bandwidth; 0: from `oversubscription`
  std::vector<std::pair<std::uint32_t, double>> node_bytes_per_second;  // node -> bandwidth of its links, if not bytes_per_second
};

enum class straggle : std::uint8_t { none, lognormal, exponential };

// Time on a processor: a task takes floor + flops / flops_per_second + bytes / bytes_per_second,
// times a factor that is drawn for it.
struct compute_model {
  double flops_per_second = 100e9, bytes_per_second = 10e9;  // 0: costs no time
  duration floor{500};
  unsigned cores = 2;  // tasks that one node runs at once
  // lognormal: exp(spread * normal), median 1. exponential: 1 + spread * exponential, mean 1 +
  // spread.
  straggle kind = straggle::none;
  double spread = 0;
  double probability = 1;                              // that a task draws a factor
  std::vector<std::pair<std::uint32_t, double>> slow;  // node -> factor on the time of its tasks
};

// The disk of a node: the time until a checkpoint is written. Training does not wait for it.
struct disk_model {
  double bytes_per_second = 0;  // 0: the size costs no time
  duration latency{};
};

// The kinds up to `drop` act on single messages, with a probability (of_the_wire). All others
// happen at a time, to nodes (schedule.hpp). The order is that of fault_words.
enum class fault_kind : std::uint8_t {
  delay,
  reorder,
  duplicate,
  drop,
  partition,
  cut,
  slow,
  slow_disk,
  disk_full,
  skew,
  kill,
  lose,
  stop,
  drain,
  crash,
};
inline constexpr std::array fault_words = {"delay",     "reorder", "duplicate", "drop", "partition", "cut",   "slow", "slow_disk",
                                           "disk_full", "skew",    "kill",      "lose", "stop",      "drain", "crash"};
constexpr const char* text_of(fault_kind k) { return fault_words[static_cast<std::uint8_t>(k)]; }
constexpr bool of_the_wire(fault_kind k) { return k <= fault_kind::drop; }
// Kinds that hit a node at a moment; the others last from `from` until `until`.
constexpr bool at_a_moment(fault_kind k) { return k >= fault_kind::kill; }

// The planes of a `cut`.
enum class fault_plane : std::uint8_t { both, control, data };
inline constexpr std::array plane_words = {"both", "control", "data"};

// The times of a fault that hits nodes at a moment. times: `times` times, drawn from the window.
// exponential, weibull: each node (or group) independently at a rate, counted from the end of its
// last fault. moments: at the listed times.
enum class crash_times : std::uint8_t { times, exponential, weibull, moments };

// One line of a faults file. `kind` decides which members are used:
//   delay      each message, with `probability`, takes [least, most] longer; order is kept
//   reorder    the same on the wire, where other messages may overtake it
//   duplicate  the message arrives twice: on the wire, or (`above`) at the role itself, which must
//              detect the copy
//   drop       the message is lost on the wire
//   partition  between `from` and `until` no message passes between `nodes` and all others
//   cut        between `from` and `until` no message of `plane` passes from `nodes` to `to` (empty:
//              all others), with `both_ways` in neither direction
//   slow       between `from` and `until` tasks of `nodes` take `factor` times as long
//   slow_disk  between `from` and `until` checkpoints of `nodes` take `factor` times as long
//   disk_full  between `from` and `until` writes of checkpoints, weights and the journal fail on
//              `nodes`
//   skew       the clocks of `nodes` are `least` ahead of others and run `factor` times as fast
//   kill       the daemon's process dies: its peers see closed connections
//   lose       the machine is gone: its peers hear nothing until their silence limit
//   stop       the daemon is stopped (SIGSTOP) and continues after `restart_after`
//   drain      the daemon gets SIGTERM and leaves in order
//   crash      another word for kill
// The last five happen at a time drawn from [from, until], or at `from` if there is no `until`, to
// one of `nodes` (empty: any but node 0); with `groups` to all nodes of one group at once; `times`
// times. The daemon starts again `restart_after` later, or never (negative).
// A world of roles without daemons (world.hpp) knows none of disk_full, kill, lose, stop, drain and
// crash.
// A channel (channel.hpp) hides the faults of the wire from roles, as TCP does in production.
// size: mirrors a [[fault]] of a simulation file
struct fault {
  fault_kind kind = fault_kind::delay;
  double probability = 0;
  duration least{}, most{};
  duration from{}, until = duration::max();
  std::vector<std::uint32_t> nodes;
  std::vector<std::uint32_t> to;
  fault_plane plane = fault_plane::both;
  bool both_ways = false;
  double factor = 1;
  bool above = false;
  duration restart_after{-1};
  std::uint32_t times = 1;
  crash_times when = crash_times::times;
  double mean = 0, shape = 1;  // seconds between faults; weibull: shape (below 1: they cluster)
  struct moment {
    duration at{};
    std::uint32_t node = 0;
    duration down{-1};
    friend bool operator==(const moment&, const moment&) = default;
  };
  std::vector<moment> moments;
  std::uint32_t rack = 0;                          // groups of this many consecutive nodes; 0: no racks
  std::vector<std::vector<std::uint32_t>> groups;  // or these groups
  friend bool operator==(const fault&, const fault&) = default;
};

struct fault_model {
  std::vector<fault> list;
  std::chrono::nanoseconds resend{1'000'000};  // timeout of the first retransmission; later ones are measured
  friend bool operator==(const fault_model&, const fault_model&) = default;
};

// Counts of the faults that happened. A test that injects a fault asserts its count.
// size: one counter per kind of fault
struct fault_counts {
  std::uint64_t delayed = 0, reordered = 0, duplicated_on_wire = 0, duplicated_above = 0, dropped = 0, cut_off = 0;
  std::uint64_t slowed = 0, straggled = 0, crashed = 0, restarted = 0;
  std::uint64_t stored = 0, left_out = 0, slow_stores = 0;  // checkpoints: written, skipped (two were unfinished), slowed
  std::uint64_t lost_in_crash = 0;  // messages and tasks of a crashed node, and messages sent to it while it is down
  std::uint64_t lost_updates = 0;   // additions to a chunk of shared parameters that a concurrent one overwrote
  std::uint64_t stale = 0;          // messages of a former life of their node, or of a plan that their node does not host
  std::uint64_t resent = 0, wire_duplicates = 0,
                held = 0;               // by channels: frames retransmitted, duplicates dropped, frames held behind a gap
  std::uint64_t lost_with_session = 0;  // messages of plans to a node without a connection, and of connections that have ended
};

}  // namespace troupe::sim
