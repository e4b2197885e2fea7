// Sync conditions: they decide when a worker that trains on its own weights exchanges them. One of
// Platoon's five parts (Ma et al. 2016). Job file: `when = { kind = "every", steps = 10 }` in
// [train.sync]. A mode that exchanges at every step takes no condition.
//
// A condition is queried once after every local step, in order. Its answer is a function of the
// views that it has been given, not of a clock or random numbers, so a run can be repeated. Each
// worker has its own instance. Threads: one at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "ops/options.hpp"
#include "ops/type_table.hpp"

namespace troupe {

struct condition_view {
  std::uint64_t step = 0;           // finished local steps
  std::uint64_t last_exchange = 0;  // `step` at the last exchange; 0: none yet, all workers start from the same weights
  // Drift |w - u| / |u|, in the L2 norm over all parameters; u: the weights right after the last
  // exchange. Set only if needs_drift().
  double drift = 0.0;
};

struct sync_condition {
  virtual ~sync_condition() = default;
  virtual bool needs_drift() const { return false; }
  // Returns true if an exchange is due now, before the next step.
  virtual bool due(const condition_view& now) = 0;
};

struct condition_type {
  std::string name;
  std::string doc;
  option_specs specs;
  std::function<std::unique_ptr<sync_condition>(const options&)> make;  // the options have been checked; may throw option_error
};

class condition_registry : public type_table<condition_type> {};

void add_stock_conditions(condition_registry& r);

// The drift, computed from the sums of squares of w - u and of u. Infinite if u is zero and w is
// not.
double drift_of(double moved_squares, double base_squares);

}  // namespace troupe
