// Update rules: how a gradient changes a weight. A rule is const and holds only its options; what
// it remembers between steps (momentum) are state tensors of the weight's shape, which the shard
// keeps, checkpoints and passes in. States start at zero.
// Invariant: element i of the results depends on element i of the arguments only, so any slicing of
// a tensor gives the same bits.
// Threads: const; may run on slices of one tensor at the same time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ops/options.hpp"
#include "ops/tensor.hpp"
#include "ops/type_table.hpp"

namespace troupe {

class device;

// One step's numbers. `lr` and `decay` include schedule and multipliers. The gradient that counts
// is grad_scale times what is given, each element clamped to [-clip_value, clip_value] when that is
// not 0, before decay adds its term.
struct rule_step {
  double lr = 0.0, decay = 0.0, grad_scale = 1.0;
  double clip_value = 0.0;
  std::uint64_t step = 0;     // of the job
  std::uint64_t updates = 0;  // that these states have seen already: what a bias correction goes by
};

struct rule {
  virtual ~rule() = default;
  // Names of the state tensors, as checkpoints have them ("momentum").
  virtual std::vector<std::string> states() const { return {}; }
  // Outputs that are only declared get memory; they may also be the inputs themselves (in place)
  // where those are not frozen.
  virtual void update(device& dev, const rule_step& now, const tensor& weight_in, const tensor& grad, tensor& weight_out,
                      const tensors& states_in, tensors& states_out) const = 0;
};

struct rule_type {
  std::string name;  // as in dynamics = { rule = "momentum", ... }
  std::string doc;
  option_specs specs;  // beyond lr, decay and schedule, which every rule has
  std::function<std::unique_ptr<rule>(const options&)> make;
};

class rule_registry : public type_table<rule_type> {};

void add_stock_rules(rule_registry& r);

}  // namespace troupe
