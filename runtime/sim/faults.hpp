// Draws the faults of a run. Its random numbers are its own, so that a fault more or less does not
// change what the network draws.
// Pure: the world asks about each message and task, and tells what time it is.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/sim/models.hpp"
#include "runtime/sim/random.hpp"

namespace troupe::sim {

class faults {
 public:
  faults(fault_model m, std::uint64_t seed) : model_(std::move(m)), random_(seed ^ 0x6661756c74730a0dull) {}

  bool any() const { return !model_.list.empty(); }
  // Does the wire need a channel above it?
  bool unreliable() const;
  const fault_model& model() const { return model_; }

  // What happens to a message that leaves node `from` for node `to` now.
  struct verdict {
    bool lost = false, twice = false;
    duration longer{};
  };
  verdict on_wire(std::uint32_t from, std::uint32_t to, time_point now, fault_counts& counts);
  // Does the role get it twice?
  bool twice_above(std::uint32_t from, std::uint32_t to, time_point now, fault_counts& counts);
  // Factor on a task's time.
  double slowness(std::uint32_t node, time_point now, fault_counts& counts) const;

  struct crash {
    time_point at;
    std::uint32_t node;
    duration restart_after;  // negative: never
    role_id role = no_role;  // alone; none: the node
  };
  // All crashes of the run that have a time, by time, for a cluster of so many nodes. Drawn once.
  std::vector<crash> crashes(std::uint32_t nodes);
  // Those that crash at a rate, each unit by itself: which fault, and its nodes. Never node 0,
  // unless it is named.
  struct unit {
    std::size_t fault = 0;
    std::vector<std::uint32_t> nodes;
  };
  std::vector<unit> units(std::uint32_t nodes) const;
  // From the time when it was last there.
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
  static bool has(const fault& f, std::uint32_t node);
  static bool now_is_in(const fault& f, time_point now) { return now >= f.from && now < f.until; }
  duration drawn(const fault& f);
  void add_drawn(const fault& f, std::uint32_t nodes, std::vector<crash>& list);

  fault_model model_;
  random random_;
};

}  // namespace troupe::sim
