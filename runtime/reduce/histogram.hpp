// Histograms of the values of tensors, computed in tasks. On a device with queues the values are
// fetched to the host, and counted in a second task, when the first is over.
// Errors: none. Threads: functions without state; a value_counter belongs to one task at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "ops/tensor.hpp"
#include "runtime/messages/value_histogram.hpp"

namespace troupe {

class device;

// Counts the values of a tensor in host memory, each multiplied by `scale`. A tensor without memory
// has no values.
value_histogram count_values(const tensor& t, double scale = 1.0);

class value_counter {
 public:
  // Counts `scale` times the values of `t`, as they are now: at once, or after finish().
  void take(device& d, const tensor& t, double scale = 1.0);
  // Returns true if values were fetched. When the task is over, another task must call finish().
  bool owes() const { return static_cast<bool>(fetched_); }
  void finish();
  // Nullopt: nothing was taken.
  const std::optional<value_histogram>& result() const { return result_; }

 private:
  std::optional<value_histogram> result_;
  tensor fetched_;
  double scale_ = 1.0;
};

// Of one block of a parameter, for `step`, at `version` of the block.
struct block_histograms {
  std::uint32_t block = 0;
  std::uint64_t step = 0, version = 0;
  value_counter weight, gradient;
  bool owes() const { return weight.owes() || gradient.owes(); }
  void finish() {
    weight.finish();
    gradient.finish();
  }
};

}  // namespace troupe
