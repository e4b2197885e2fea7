// What a simulated cluster is made of, as data: network, compute, faults. Read from TOML by
// runtime/node/config/sim_file, or written down in a test. All times are virtual.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "runtime/messages/ids.hpp"

namespace troupe::sim {

enum class fabric_kind : std::uint8_t {
  uniform,  // every message draws its latency: no links, no shared anything. Makes every order of delivery possible. For tests.
  star,     // every node has one full-duplex link to one switch
  tree,     // racks of `rack` nodes, each with a full-duplex uplink to one core switch
};

// Time on the wire.
struct network_model {
  // uniform: latency in [least, most]. Of every kind: `local` between roles of one node.
  duration least{1000}, most{200000};
  duration local{200};
  double bytes_per_second = 0;  // of a link (uniform: of a message's way); 0: size costs nothing
  bool shuffle_local = true;    // uniform: draw latencies between roles of one node too

  fabric_kind fabric = fabric_kind::uniform;
  duration latency{5000};              // of one link
  duration jitter{};                   // a message draws up to this much more; its pair of nodes keeps its order
  bool cut_through = true;             // switches pass a message on while it still comes in; false: store and forward
  bool full_duplex = true;             // false: both directions of a link share its bandwidth
  std::uint32_t rack = 16;             // tree: nodes of a rack
  double oversubscription = 1;         // tree: an uplink has rack * bytes_per_second / this
  double uplink_bytes_per_second = 0;  // tree: or this
  std::vector<std::pair<std::uint32_t, double>> node_bytes_per_second;  // links of nodes that differ
};

enum class straggle : std::uint8_t { none, lognormal, exponential };

// Time on a processor: a task takes floor + flops / flops_per_second + bytes / bytes_per_second,
// times what is drawn for it.
struct compute_model {
  double flops_per_second = 100e9, bytes_per_second = 10e9;  // 0: costs nothing
  duration floor{500};
  unsigned cores = 2;  // of one node: that many tasks run at once
  // lognormal: exp(sigma * normal), median 1. exponential: 1 + spread * exponential, the mean is 1
  // + spread.
  straggle kind = straggle::none;
  double spread = 0;
  double probability = 1;                              // of being drawn for at all, by task
  std::vector<std::pair<std::uint32_t, double>> slow;  // node -> factor on the time of its tasks
};

// Of a node: how long a checkpoint takes to be on disk. Training does not wait for it.
struct disk_model {
  double bytes_per_second = 0;  // 0: size costs nothing
  duration latency{};
};

enum class fault_kind : std::uint8_t { delay, reorder, duplicate, drop, partition, slow, crash, slow_disk, skew };

// When crashes come: `times` of them at times drawn from the window; or, for each node (or group)
// by itself, one after the other at a rate, counted from the time at which it was last there; or at
// the moments of a list.
enum class crash_times : std::uint8_t { times, exponential, weibull, moments };

// One line of a faults file. Which members count depends on `kind`:
//   delay      each message, with `probability`, takes [least, most] longer; order is kept
//   reorder    the same on the wire, where others may overtake it
//   duplicate  comes twice: on the wire, or (`above`) at the role itself, which has to know it by itself
//   drop       is lost on the wire
//   partition  between `from` and `until` nothing passes between `nodes` and all others
//   slow       between `from` and `until` tasks of `nodes` take `factor` times as long
//   crash      at a time drawn from [from, until] one of `nodes` (empty: any but node 0) loses everything; it is back after
//              `restart_after`, or never (negative). `times`: that many, one after the other. With `groups` all nodes of one go at once
//   slow_disk  between `from` and `until` checkpoints of `nodes` take `factor` times as long to be on disk
//   skew       the clocks of `nodes` are `least` ahead of the others', and go `factor` times as fast
// What happens on the wire is hidden from roles by a channel (channel.hpp), as TCP hides it in production.
struct fault {
  fault_kind kind = fault_kind::delay;
  double probability = 0;
  duration least{}, most{};
  duration from{}, until = duration::max();
  std::vector<std::uint32_t> nodes;
  std::vector<role_id> roles;  // crash: one of these alone
  double factor = 1;
  bool above = false;
  duration restart_after{-1};
  std::uint32_t times = 1;
  crash_times when = crash_times::times;
  double mean = 0, shape = 1;  // seconds from one to the next; weibull: its shape (below 1: they come in bunches)
  struct moment {
    duration at{};
    std::uint32_t node = 0;
    duration down{-1};
  };
  std::vector<moment> moments;
  std::uint32_t rack = 0;                          // groups are so many nodes that follow each other; 0: none
  std::vector<std::vector<std::uint32_t>> groups;  // or these
};

struct fault_model {
  std::vector<fault> list;
  std::chrono::nanoseconds detect{5'000'000'000};  // a node that is down longer is reported to the coordinator (peer_down)
  std::chrono::nanoseconds resend{1'000'000};      // first retransmission after this; then by what is measured
};

// How often each kind happened. A test that injects a fault asserts that it did.
struct fault_counts {
  std::uint64_t delayed = 0, reordered = 0, duplicated_on_wire = 0, duplicated_above = 0, dropped = 0, cut_off = 0;
  std::uint64_t slowed = 0, straggled = 0, crashed = 0, restarted = 0, reported_down = 0;
  std::uint64_t stored = 0, left_out = 0, slow_stores = 0;  // checkpoints on disk; those not written, as two others waited
  std::uint64_t lost_in_crash = 0;  // messages, timers and tasks of a node that crashed, and what was sent to it while down
  std::uint64_t lost_updates = 0;   // additions to shared parameters (of a chunk) that a concurrent one overwrote
  std::uint64_t stale = 0;          // messages of an incarnation that is gone
  std::uint64_t resent = 0, wire_duplicates = 0,
                held = 0;  // by the channels: sent again, recognised, kept until the gap was filled
};

}  // namespace troupe::sim
