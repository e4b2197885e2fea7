// Learning rate schedules: the rate of a step, from the job's base rate. Pure functions of the step.
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
  std::function<std::unique_ptr<schedule>(const options&)> make;
};

class schedule_registry : public type_table<schedule_type> {};

void add_stock_schedules(schedule_registry& r);

}  // namespace troupe
