#include "runtime/job/job_data.hpp"

#include <algorithm>

#include "runtime/job/position.hpp"

namespace troupe {

std::int64_t eval_examples(const prepared_job& j) {
  return j.spec.eval.batch > 0 ? std::max<std::int64_t>(1, j.spec.eval.batch / j.spec.pipeline.packets) : j.graph.packet_examples;
}

split eval_split(const prepared_job& j) { return j.spec.eval.on_training ? split::train : split::test; }

std::unique_ptr<eval_sampler> make_eval_sampler(const prepared_job& j) {
  const auto& s = j.spec.eval.sampler;
  return j.all->eval_samplers.find(s.kind)->make(s.values,
                                                 {j.spec.seed, j.data->size(eval_split(j)), eval_examples(j) * j.plan.packets});
}

std::unique_ptr<sampler> make_sampler(const prepared_job& j, std::uint32_t worker, std::uint64_t seed) {
  const auto* type = j.all->samplers.find(j.spec.data.sampler.kind);
  sampler_config c;
  c.seed = seed;
  c.examples = j.data->size(split::train);
  c.batch = j.spec.data.batch;
  c.worker = worker;
  c.workers = static_cast<std::uint32_t>(std::max<std::size_t>(1, j.plan.ranges.size()));
  const auto n = j.graph.packet_examples;
  for (const auto& r : j.plan.ranges) c.shares.push_back({r.first * n, r.count * n});
  return type->make(j.spec.data.sampler.values, c);
}

std::uint32_t readers_of(const prepared_job& j) {
  constexpr std::size_t least = 2, most = 8;
  if (j.spec.data.readers > 0) return static_cast<std::uint32_t>(j.spec.data.readers);
  if (!j.data->decodes()) return 1;
  std::size_t devices = 0;
  for (const auto& n : j.nodes) devices = std::max(devices, n.devices.size());
  return static_cast<std::uint32_t>(std::clamp(devices, least, most));
}

expected<void, diagnostic> add_augmentation(prepared_job& j) {
  const auto& d = j.spec.data;
  if (!d.augment) return {};
  try {
    j.augment = std::make_shared<const augmentation>(*d.augment, j.data->example(), j.data->ids(), j.spec.seed);
  } catch (const option_error& e) {
    const auto at = position(d.key_at, "augment", d.at);
    return unexpected(diagnostic{position(d.key_at, "augment." + e.key, at), "[data.augment]: " + std::string(e.what())});
  }
  return {};
}

expected<void, diagnostic> check_samplers(const prepared_job& j) {
  const auto& d = j.spec.data;
  const auto& e = j.spec.eval;
  try {
    if (make_sampler(j, 0, j.spec.seed)->steps_per_epoch() < 1)
      return unexpected(diagnostic{d.sampler.at, "an epoch has less than one step"});
  } catch (const option_error& x) {
    return unexpected(diagnostic{d.sampler.at, "sampler '" + d.sampler.kind + "': " + x.what()});
  }
  if (!j.all->eval_samplers.find(e.sampler.kind))
    return unexpected(diagnostic{e.sampler.at, "unknown evaluation sampler '" + e.sampler.kind + "'"});
  try {
    make_eval_sampler(j);
  } catch (const option_error& x) {
    return unexpected(diagnostic{position(e.key_at, "sampler." + x.key, e.sampler.at), "[eval] sampler: " + std::string(x.what())});
  }
  const auto packets = j.spec.pipeline.packets;
  constexpr std::int64_t max_packets = 0xffffffff;  // header.packets has 32 bits
  if (const auto n = make_eval_sampler(j)->examples() / eval_examples(j); n >= max_packets)
    return unexpected(diagnostic{position(e.key_at, "batch", e.at), "[eval]: an evaluation would have " + std::to_string(n) +
                                                                        " packets, but the maximum is " +
                                                                        std::to_string(max_packets) + ": use a larger batch"});
  if (e.batch % packets != 0)
    return unexpected(
        diagnostic{position(e.key_at, "batch", e.at), "packets must divide the batch of [eval] too: " + std::to_string(e.batch) +
                                                          " examples, " + std::to_string(packets) + " packets"});
  return {};
}

expected<void, diagnostic> check_carries(const prepared_job& j) {
  if (!j.graph.carries()) return {};
  const auto& s = j.spec.data.sampler;
  if (!make_sampler(j, 0, j.spec.seed)->continues_sequences())
    return unexpected(diagnostic{s.at, "algorithm = \"bptt\" carries state from step to step, but with sampler '" + s.kind +
                                           "' an example does not continue the example before it; use sampler 'lanes'"});
  if (const auto& mode = *j.all->modes.find(j.spec.train.sync.kind); mode.work_units)
    return unexpected(
        diagnostic{j.spec.train.sync.at, "algorithm = \"bptt\" keeps the state of a sequence with its worker, but mode '" +
                                             mode.name + "' deals packets to any free worker"});
  return {};
}

}  // namespace troupe
