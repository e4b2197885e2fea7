// The parameter part of check_plan (plan_check.hpp) and shared helpers, for plan_check*.cpp only.
#pragma once

#include <string>
#include <vector>

#include "runtime/plan/exact_cover.hpp"
#include "runtime/plan/plan_check.hpp"

namespace troupe {

// A layer, or a part of it, on a training stage.
struct hosted_part {
  const role_plan* stage = nullptr;
  std::size_t position = 0;  // in stage->layers
  const part_layer* part() const { return stage->parts[position].get(); }
};
using parts_by_layer = std::vector<std::vector<hosted_part>>;

span_of both(span_of a, span_of b);  // the intersection
// "packet 3", "packets 3 to 5".
std::string counted(const char* one, const char* many, span_of s);

// Requires that all numbers in the plan are valid, which check_plan has verified.
std::vector<plan_fault> check_parameters(const job_plan& p, const model_graph& g, const parts_by_layer& parts);

}  // namespace troupe
