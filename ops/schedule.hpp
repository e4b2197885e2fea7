// Learning rate schedules: the rate of a step, from the job's base rate. Pure functions of the
// step; const, any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "ops/options.hpp"
#include "ops/type_table.hpp"

namespace troupe {

struct schedule {
  virtual ~schedule() = default;
  virtual double lr(double base, std::uint64_t step) const = 0;
};

struct schedule_type {
  std::string name;  // as in schedule = { kind = "step", every = 5000, factor = 0.1 }
  std::string doc;
  option_specs specs;
  std::function<std::unique_ptr<schedule>(const options&)> make;  // options already checked; may throw option_error
};

class schedule_registry : public type_table<schedule_type> {};

void add_stock_schedules(schedule_registry& r);

// `inner`, its first `steps` steps multiplied with a factor that grows in a straight line from
// `from` to 1: whatever the schedule, from step `steps` on it is as if there were no warm-up. steps
// = 0: `inner` itself. Goyal et al. 2017, section 2.2.
std::unique_ptr<schedule> with_warmup(std::unique_ptr<schedule> inner, std::uint64_t steps, double from);

// `inner` times `factor`. A factor of 1: `inner` itself.
std::unique_ptr<schedule> scaled_by(std::unique_ptr<schedule> inner, double factor);

// The factor that a batch `batch / base_batch` times as large puts on the rate: kind is "none" (1),
// "linear" (the ratio) or "sqrt" (its root). Krizhevsky 2014, section 5; FireCaffe (Iandola et al.
// 2016, section 4.1).
double batch_factor(const std::string& kind, double batch, double base_batch);

}  // namespace troupe
