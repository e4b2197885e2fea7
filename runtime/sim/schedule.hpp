// The times at which nodes are hit by faults, drawn from a fault model: a list of happenings, each
// with a fixed time, fixed nodes and a fixed length. A simulation of daemons carries them out; a
// failed simulation is repeated from its list, and shrink.hpp makes the list shorter.
//
// Faults of single messages (of_the_wire) are no happenings; faults.hpp draws them.
// Pure. Deterministic: a schedule depends on the model, the number of nodes and the seed, and draws
// nothing from the random numbers of the network.
#pragma once

#include <cstdint>
#include <optional>
#include <queue>
#include <string>
#include <tuple>
#include <vector>

#include "runtime/sim/models.hpp"
#include "runtime/sim/random.hpp"

namespace troupe::sim {

// Nodes are indices from 0, in ascending order.
struct happening {
  time_point at{};
  fault_kind kind = fault_kind::kill;     // neither of the wire nor `crash`, which becomes `kill`
  std::vector<std::uint32_t> nodes;       // all are hit at once
  std::vector<std::uint32_t> to;          // cut; empty: all others
  fault_plane plane = fault_plane::both;  // cut
  bool both_ways = false;                 // cut
  duration length{-1};                    // until the daemon starts again, continues, or the fault ends; negative: never
  double factor = 1;                      // slow, slow_disk, skew
  duration ahead{};                       // skew
  friend bool operator==(const happening&, const happening&) = default;
};

// Whether a partition or cut stops messages of `plane` (control or data) from one node to another
// while it lasts; false for other kinds.
bool cuts(const happening& h, fault_plane plane, std::uint32_t from, std::uint32_t to);

// One line for people, as in "1.5 s: kill n2 n3, back after 0.2 s". `names`: of the nodes; if
// empty, n1, n2, ...
std::string text_of(const happening& h, const std::vector<std::string>& names = {});

// The happenings of a model in the order of their times; those of one time in the order of the
// model's faults. Faults at a rate are drawn one by one, so a long schedule of many nodes costs
// memory only for the nodes. A rate counts from the end of the node's last fault of that line, or
// of the line's `from`, and does not consider what other lines do to the node.
class schedule {
 public:
  // Nodes that the model names beyond `nodes` are left out.
  schedule(const fault_model& m, std::uint32_t nodes, std::uint64_t seed);
  // None: there are no more. Never ends if a rate has no `until`.
  std::optional<happening> next();

 private:
  struct unit {  // nodes that are hit together, at a rate
    std::size_t line = 0;
    std::vector<std::uint32_t> nodes;
    random draws;
  };
  struct entry {
    time_point at;
    std::size_t line = 0, number = 0;  // number: index in fixed_ or units_
    bool of_unit = false;
    bool operator>(const entry& o) const { return std::tie(at, line, number) > std::tie(o.at, o.line, o.number); }
  };
  void add(std::size_t line, time_point at, std::vector<std::uint32_t> nodes, duration length);
  void add_drawn(std::size_t line, random draws);
  void plan_next(std::size_t unit, time_point from);
  happening made(std::size_t line, time_point at, std::vector<std::uint32_t> nodes, duration length) const;

  std::vector<fault> faults_;
  std::uint32_t nodes_;
  std::vector<happening> fixed_;
  std::vector<unit> units_;
  std::priority_queue<entry, std::vector<entry>, std::greater<>> due_;
};

// All happenings before `until`, which must not be duration::max() if a rate has no `until`.
std::vector<happening> draw_schedule(const fault_model& m, std::uint32_t nodes, std::uint64_t seed,
                                     duration until = duration::max());

// The model with exactly these happenings: draw_schedule() returns `list`, whatever the seed, if
// `list` is sorted by time.
fault_model to_model(const std::vector<happening>& list);

// The model without the faults that become happenings.
fault_model wire_faults(fault_model m);

// The groups of nodes that a fault at a moment hits together; each node is its own group if the
// fault names no groups. Node 0 is included only if the fault names it.
std::vector<std::vector<std::uint32_t>> groups_of(const fault& f, std::uint32_t nodes);

// Draws the time to the next fault of a rate.
duration time_to_next(const fault& f, random& draws);

}  // namespace troupe::sim
