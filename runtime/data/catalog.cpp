// The registries of sources and samplers, and their stock entries.
#include <algorithm>
#include <utility>

#include "runtime/data/stock.hpp"

namespace troupe {

void add_stock_sources(source_registry& r) {
  r.add(csv_source_type());
  r.add(idx_source_type());
  r.add(packed_source_type());
  r.add(synthetic_source_type());
  r.add(text_source_type());
}

void add_stock_samplers(sampler_registry& r) {
  r.add(shuffle_sampler_type());
  r.add(sequential_sampler_type());
  r.add(shard_sampler_type());
  r.add(own_order_sampler_type());
  r.add(replicate_sampler_type());
  r.add(served_sampler_type());
  r.add(seeded_sampler_type());
  r.add(sequence_sampler_type());
}

void add_stock_eval_samplers(eval_sampler_registry& r) {
  r.add(all_eval_sampler_type());
  r.add(sample_eval_sampler_type());
  r.add(sequence_eval_sampler_type());
}

worker_shares shares_of(const sampler_config& c) {
  if (c.shares) return *c.shares;
  const auto least = c.batch / c.workers, more = c.batch % c.workers;
  const auto first = c.worker * least + std::min<std::int64_t>(c.worker, more);
  return {{first, least + (c.worker < more ? 1 : 0)}, first, c.batch, least + (more > 0 ? 1 : 0)};
}

void check_sampler_config(const sampler_config& c) {
  if (c.batch <= 0) throw option_error("batch", "batch is " + std::to_string(c.batch) + ", but must be at least 1 example");
  if (c.examples < c.batch)
    throw option_error("batch", "batch is " + std::to_string(c.batch) + ", but the training set has only " +
                                    std::to_string(c.examples) + " examples");
}

}  // namespace troupe
