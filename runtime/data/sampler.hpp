// Which examples a worker takes at step t, and how they reach it. A sampler is a pure function of
// (seed, step, worker): its state is the step, so it may be resumed anywhere. `shuffle` and
// `sequential` do not look at the worker: every loader knows the whole order and takes the part its
// packets need. The others are Platoon's scenarios (Mila, 2016): see docs/data.md.
//
// An epoch is one pass of every worker over the examples that it is to see.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ops/options.hpp"
#include "runtime/spec/job_spec.hpp"

namespace troupe {

// The examples of the global batch that are one worker's.
struct worker_share {
  std::int64_t first = 0, count = 0;
};

struct sampler_config {
  std::uint64_t seed = 1;
  std::int64_t examples = 0;  // of the training split
  std::int64_t batch = 0;     // global
  std::uint32_t worker = 0, workers = 1;
  std::vector<worker_share> shares = {};  // by worker; empty: the batch cut as evenly as it goes
};

class sampler {
 public:
  virtual ~sampler() = default;
  virtual std::int64_t steps_per_epoch() const = 0;  // the last partial batch is dropped
  // Indices of examples [first, first + count) of step `step`'s global batch; of a sampler by
  // worker: within its share. May keep a cache of one epoch's order: one sampler per loader, not
  // shared.
  virtual std::vector<std::int64_t> indices(std::uint64_t step, std::int64_t first, std::int64_t count) = 0;
  // Whether indices() depends on the worker. Such a sampler cannot serve modes that deal packets to
  // workers as they come.
  virtual bool by_worker() const { return false; }
  // Whether position i of a step's batch goes on where position i of the step before stopped, but
  // for the first step of an epoch: what layers that carry state need. Such a sampler does not look
  // at the worker.
  virtual bool continues_sequences() const { return false; }
  // For delivery::seeds: what the data server sends for step `step`, and what a loader that knows
  // nothing else makes of it. Together they are indices().
  virtual std::uint64_t seed_of(std::uint64_t step) const {
    (void)step;
    return 0;
  }
  virtual std::vector<std::int64_t> indices_from(std::uint64_t seed, std::uint64_t step, std::int64_t first, std::int64_t count) {
    (void)seed;
    return indices(step, first, count);
  }
  // The most that it keeps between calls.
  virtual std::int64_t held_bytes() const { return 0; }
};

struct sampler_type {
  std::string name;
  std::string doc;
  option_specs specs;
  std::function<std::unique_ptr<sampler>(const options&, const sampler_config&)> make;
  delivery how = delivery::local;
};
class sampler_registry {
 public:
  void add(sampler_type t);
  const sampler_type* find(std::string_view name) const;
  std::vector<std::string> names() const;

 private:
  std::map<std::string, sampler_type, std::less<>> types_;
};
// shuffle, sequential, shard, own_order, replicate, served, seeded, lanes
void add_stock_samplers(sampler_registry& r);

// Which examples an evaluation with the weights of version `version` takes (Platoon:
// make_validation_sample). A pure function of (seed, version), so a resumed run evaluates on what
// the unbroken one would have taken.
struct eval_sampler_config {
  std::uint64_t seed = 1;
  std::int64_t examples = 0;   // of the split
  std::int64_t sequences = 1;  // examples in one go of the job's packets
};
class eval_sampler {
 public:
  virtual ~eval_sampler() = default;
  virtual std::int64_t examples() const = 0;  // of every evaluation
  // Whether example i + lanes goes on where example i stopped.
  virtual bool continues_sequences() const { return false; }
  // The examples [first, first + count) of the evaluation; first + count <= examples().
  virtual std::vector<std::int64_t> indices(std::uint64_t version, std::int64_t first, std::int64_t count) = 0;
  virtual std::int64_t held_bytes() const { return 0; }  // the most that it keeps between calls
};
struct eval_sampler_type {
  std::string name;
  std::string doc;
  option_specs specs;
  std::function<std::unique_ptr<eval_sampler>(const options&, const eval_sampler_config&)> make;  // throws option_error
};
class eval_sampler_registry {
 public:
  void add(eval_sampler_type t);
  const eval_sampler_type* find(std::string_view name) const;
  std::vector<std::string> names() const;

 private:
  std::map<std::string, eval_sampler_type, std::less<>> types_;
};
void add_stock_eval_samplers(eval_sampler_registry& r);  // all, sample, lanes

}  // namespace troupe
