// Sync conditions: when a worker that trains on weights of its own exchanges them. One of Platoon's
// five parts (Ma et al. 2016); `when = { kind = "every", steps = 10 }` in [train.sync]. A mode that
// exchanges at every step takes none.
//
// A condition is asked once after every local step, in order. Its answer is a function of the views
// it has been shown: no clock, no randomness, so that a run can be repeated. Each worker has one of
// its own; one thread at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "ops/options.hpp"
#include "ops/type_table.hpp"

namespace troupe {

struct condition_view {
  std::uint64_t step = 0;           // local steps finished so far
  std::uint64_t last_exchange = 0;  // `step` at the last exchange; 0 when there was none: all begin from the same weights
  // |w - u| / |u| in the L2 norm over all parameters, u the weights right after the last exchange.
  // Only with needs_drift().
  double drift = 0.0;
};

struct sync_condition {
  virtual ~sync_condition() = default;
  virtual bool needs_drift() const { return false; }
  // Is an exchange due now, before the next step?
  virtual bool due(const condition_view& now) = 0;
};

struct condition_type {
  std::string name;
  std::string doc;
  option_specs specs;
  std::function<std::unique_ptr<sync_condition>(const options&)> make;  // options already checked; may throw option_error
};

class condition_registry : public type_table<condition_type> {};

void add_stock_conditions(condition_registry& r);

// The drift from two sums of squares: of w - u and of u. From zero weights any move is infinite
// drift.
double drift_of(double moved_squares, double base_squares);

}  // namespace troupe
