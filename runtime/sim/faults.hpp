// Draws the faults of a run. It has its own random numbers, so that one fault more or less does not
// change what the network draws.
// Pure: the world calls it for each message and task and passes the time.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/sim/models.hpp"
#include "runtime/sim/random.hpp"

namespace troupe::sim {

class faults {
 public:
  faults(fault_model m, std::uint64_t seed);

  bool any() const { return !model_.list.empty(); }
  // Returns true if the wire needs a channel above it.
  bool unreliable() const;
  const fault_model& model() const { return model_; }

  // The faults of a message that leaves node `from` for node `to` now.
  struct verdict {
    bool lost = false, twice = false;
    duration longer{};
  };
  verdict on_wire(std::uint32_t from, std::uint32_t to, time_point now, fault_counts& counts);
  // Returns true if the role receives the message twice.
  bool twice_above(std::uint32_t from, std::uint32_t to, time_point now, fault_counts& counts);
  // Factor on the time of a task.
  double slowness(std::uint32_t node, time_point now, fault_counts& counts) const;

  struct crash {
    time_point at;
    std::uint32_t node;
    duration restart_after;  // negative: never
    role_id role = no_role;  // only this role crashes; no_role: the node
  };
  // Returns all crashes of the run that have a fixed time, sorted by time, for a cluster of `nodes`
  // nodes. Call it once: it draws.
  std::vector<crash> crashes(std::uint32_t nodes);
  // Nodes that crash at a rate, each unit independently: the index of the fault, and the unit's
  // nodes. Contains node 0 only if the fault names it.
  struct unit {
    std::size_t fault = 0;
    std::vector<std::uint32_t> nodes;
  };
  std::vector<unit> units(std::uint32_t nodes) const;
  // Draws the time until the unit's next crash, counted from its last restart (at first from the
  // fault's `from`).
  duration next_crash(const unit& u);

  // The clock of a node reads now * rate + ahead.
  struct clock {
    duration ahead{};
    double rate = 1;
  };
  clock clock_of(std::uint32_t node) const;
  // Factor on the time of a checkpoint.
  double slowness_of_disk(std::uint32_t node, time_point now, fault_counts& counts) const;

 private:
  // Whether `f`, of the model, names the node.
  bool has(const fault& f, std::uint32_t node) const;
  static bool now_is_in(const fault& f, time_point now) { return now >= f.from && now < f.until; }
  duration drawn(const fault& f);
  void add_drawn(const fault& f, std::uint32_t nodes, std::vector<crash>& list);

  fault_model model_;
  std::vector<std::vector<bool>> named_;  // by fault, node; the lists of the model may name every node
  random random_;
};

}  // namespace troupe::sim
