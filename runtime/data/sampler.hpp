// Which examples make step t's global batch. A sampler is a pure function of (seed, step), so every loader knows the whole order
// and takes the part its packets need, whatever the number of workers.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ops/options.hpp"

namespace troupe {

struct sampler_config {
  std::uint64_t seed = 1;
  std::int64_t examples = 0;  // of the training split
  std::int64_t batch = 0;     // global
  std::uint32_t worker = 0, workers = 1;
};

class sampler {
 public:
  virtual ~sampler() = default;
  virtual std::int64_t steps_per_epoch() const = 0;  // the last partial batch is dropped
  // Indices of examples [first, first + count) of step `step`'s global batch. May keep a cache of one epoch's order: one sampler
  // per loader, not shared.
  virtual std::vector<std::int64_t> indices(std::uint64_t step, std::int64_t first, std::int64_t count) = 0;
};

struct sampler_type {
  std::string name;
  std::string doc;
  option_specs specs;
  std::function<std::unique_ptr<sampler>(const options&, const sampler_config&)> make;
};
class sampler_registry {
 public:
  void add(sampler_type t);
  const sampler_type* find(std::string_view name) const;
  std::vector<std::string> names() const;

 private:
  std::map<std::string, sampler_type, std::less<>> types_;
};
void add_stock_samplers(sampler_registry& r);  // shuffle, sequential

}  // namespace troupe
