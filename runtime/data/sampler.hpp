// Which examples a worker takes at step t, and how they are delivered. A sampler is a pure function
// of (seed, step, worker): its only state is the step, so that it can resume anywhere. `shuffle`
// and `sequential` ignore the worker: every loader knows the whole order and takes the part for its
// packets. Most others are Platoon's scenarios (Mila, 2016): see docs/data.md.
//
// An epoch is one pass of every worker over its examples.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ops/options.hpp"
#include "ops/type_table.hpp"
#include "runtime/spec/job_spec.hpp"

namespace troupe {

// One worker's examples of the batch of its worker group.
struct worker_share {
  std::int64_t first = 0, count = 0;
};
// The worker's share, and what a sampler needs of the shares of all workers of the job: their sum
// and their maximum, and the sum of those of the workers before this one. Several worker groups
// take several batches per step, so the sum may exceed the batch.
struct worker_shares {
  worker_share own;
  std::int64_t before = 0, all = 0, largest = 0;

  // Adds the share of worker `w` to those of worker `of`.
  void add(worker_share s, std::uint32_t w, std::uint32_t of) {
    if (w == of) own = s;
    if (w < of) before += s.count;
    all += s.count;
    largest = std::max(largest, s.count);
  }
};

struct sampler_config {
  std::uint64_t seed = 1;
  std::int64_t examples = 0;  // of the training split
  std::int64_t batch = 0;     // global
  std::uint32_t worker = 0, workers = 1;
  // None: the batch is split as evenly as possible (the first workers have one example more).
  std::optional<worker_shares> shares = {};
};

class sampler {
 public:
  virtual ~sampler() = default;
  virtual std::int64_t steps_per_epoch() const = 0;  // the last partial batch is dropped
  // Indices of examples [first, first + count) of the global batch of `step`; for a sampler by
  // worker, within its share. The job fails unless they are `count` indices below the number of
  // examples. May cache one epoch's order, so each loader needs its own sampler.
  virtual std::vector<std::int64_t> indices(std::uint64_t step, std::int64_t first, std::int64_t count) = 0;
  // Returns true if indices() depends on the worker. Such a sampler cannot be used in modes that
  // deal packets to workers during a step.
  virtual bool by_worker() const { return false; }
  // Returns true if position i of a step's batch continues position i of the previous step, except
  // at the first step of an epoch. Layers that carry state need this. Such a sampler ignores the
  // worker.
  virtual bool continues_sequences() const { return false; }
  // For delivery::seeds: the seed that the data server sends for step `step`, and the indices that
  // a loader derives from that seed alone. Together they equal indices().
  virtual std::uint64_t seed_of(std::uint64_t step) const {
    (void)step;
    return 0;
  }
  virtual std::vector<std::int64_t> indices_from(std::uint64_t seed, std::uint64_t step, std::int64_t first, std::int64_t count) {
    (void)seed;
    return indices(step, first, count);
  }
  // Maximum number of bytes kept between calls.
  virtual std::int64_t held_bytes() const { return 0; }
};

struct sampler_type {
  std::string name;
  std::string doc;
  option_specs specs;
  std::function<std::unique_ptr<sampler>(const options&, const sampler_config&)> make;
  delivery how = delivery::local;
};
class sampler_registry : public type_table<sampler_type> {};
// shuffle, sequential, shard, own_order, replicate, served, seeded, lanes
void add_stock_samplers(sampler_registry& r);

// The examples of an evaluation with the weights of version `version` (Platoon:
// make_validation_sample). A pure function of (seed, version), so that a resumed run evaluates on
// the same examples as an uninterrupted one.
struct eval_sampler_config {
  std::uint64_t seed = 1;
  std::int64_t examples = 0;   // of the split
  std::int64_t sequences = 1;  // sequences that the job's packets read in parallel
};
class eval_sampler {
 public:
  virtual ~eval_sampler() = default;
  virtual std::int64_t examples() const = 0;  // of every evaluation; not negative
  // Returns true if example i + sequences continues example i.
  virtual bool continues_sequences() const { return false; }
  // The examples [first, first + count) of the evaluation; first + count <= examples().
  virtual std::vector<std::int64_t> indices(std::uint64_t version, std::int64_t first, std::int64_t count) = 0;
  virtual std::int64_t held_bytes() const { return 0; }  // maximum number of bytes kept between calls
};
struct eval_sampler_type {
  std::string name;
  std::string doc;
  option_specs specs;
  std::function<std::unique_ptr<eval_sampler>(const options&, const eval_sampler_config&)> make;  // throws option_error
};
class eval_sampler_registry : public type_table<eval_sampler_type> {};
void add_stock_eval_samplers(eval_sampler_registry& r);  // all, sample, lanes

}  // namespace troupe
