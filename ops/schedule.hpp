// Learning rate schedules: the rate of a step, from the job's base rate. Pure functions of the
// step; const, safe from any thread.
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
  virtual double lr(double base, std::uint64_t step) const = 0;  // finite and not negative, or the job fails
};

struct schedule_type {
  std::string name;  // as in schedule = { kind = "step", every = 5000, factor = 0.1 }
  std::string doc;
  option_specs specs;
  std::function<std::unique_ptr<schedule>(const options&)> make;  // options are already checked; may throw option_error
};

class schedule_registry : public type_table<schedule_type> {};

void add_stock_schedules(schedule_registry& r);

// Adds a warm-up: during the first `steps` steps, the rate of `inner` is multiplied by a factor
// that grows linearly from `from` to 1. From step `steps` on, the rate is that of `inner`. With
// `prefix`, step 0 of `inner` is step `steps`, and the factor applies to its first rate. steps = 0:
// returns `inner`. Goyal et al. 2017, section 2.2.
std::unique_ptr<schedule> with_warmup(std::unique_ptr<schedule> inner, std::uint64_t steps, double from, bool prefix = false);

// The rate of `inner` times `factor`. factor = 1: returns `inner`.
std::unique_ptr<schedule> scaled_by(std::unique_ptr<schedule> inner, double factor);

// The factor on the rate for a batch that is batch / base_batch times as large. kind: "none" (1),
// "linear" (the ratio) or "sqrt" (its square root). Krizhevsky 2014, section 5; FireCaffe (Iandola
// et al. 2016, section 4.1).
double batch_factor(const std::string& kind, double batch, double base_batch);

}  // namespace troupe
