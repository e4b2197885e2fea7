// Update rules compute new weights from gradients. A rule is const and holds only its options.
// State between steps (momentum) is in tensors of the weight's shape, which the shard owns,
// checkpoints and passes in. States start at zero.
// Invariant: element i of the results depends only on element i of the arguments, so slicing a
// tensor does not change the bits.
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

// Numbers of one step. `lr` and `decay` include schedule and multipliers. The effective gradient is
// grad_scale times the given one, with each element clamped to [-clip_value, clip_value] unless
// clip_value is 0, plus the decay terms decay w + decay_l1 sign(w).
struct rule_step {
  double lr = 0.0, decay = 0.0, decay_l1 = 0.0, grad_scale = 1.0;
  double clip_value = 0.0;
  std::uint64_t step = 0;     // of the job
  std::uint64_t updates = 0;  // updates that these states have had before this one, for bias corrections
};

struct rule {
  virtual ~rule() = default;
  // Names of the state tensors in checkpoints ("momentum").
  virtual std::vector<std::string> states() const { return {}; }
  // Declared outputs are backed. Outputs may be the inputs themselves (in place) unless those are
  // frozen.
  virtual void update(device& dev, const rule_step& now, const tensor& weight_in, const tensor& grad, tensor& weight_out,
                      const tensors& states_in, tensors& states_out) const = 0;
};

struct rule_type {
  std::string name;  // as in dynamics = { rule = "momentum", ... }
  std::string doc;
  option_specs specs;  // in addition to lr, decay and schedule, which every rule has
  std::function<std::unique_ptr<rule>(const options&)> make;
};

class rule_registry : public type_table<rule_type> {};

void add_stock_rules(rule_registry& r);

}  // namespace troupe
