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
  // Throws std::invalid_argument if the model has a fault that needs a daemon (at_a_moment).
  faults(fault_model m, std::uint64_t seed);

  bool any() const { return !model_.list.empty(); }
  // Returns true if the wire needs a channel above it.
  bool unreliable() const;
  const fault_model& model() const { return model_; }
  // The times of all faults of messages are counted from `start` instead of 0.
  void count_from(time_point start);

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
  static bool cuts_data(const fault& f);
  // Whether `f`, a partition or cut of the model, stops messages on this way.
  bool cuts(const fault& f, std::uint32_t from, std::uint32_t to) const;
  static bool now_is_in(const fault& f, time_point now) { return now >= f.from && now < f.until; }
  duration drawn(const fault& f);

  fault_model model_;
  std::vector<std::vector<bool>> named_;  // by fault, node; the lists of the model may name every node
  random random_;
};

}  // namespace troupe::sim
