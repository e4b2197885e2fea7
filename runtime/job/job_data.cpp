#include "runtime/job/job_data.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>
#include <variant>

#include "ops/device.hpp"
#include "runtime/base/number_text.hpp"
#include "runtime/data/validation.hpp"
#include "runtime/job/position.hpp"

namespace troupe {

example_facts example_facts_of(const source& s, const shape& example) {
  return {example, s.classes(), s.label(), s.ids(), s.vocabulary(), s.targets()};
}

std::shared_ptr<const source> open_data(const source_type& type, const data_spec& d, std::uint64_t seed) {
  auto opened = type.open(d.values, seed);
  if (d.validation == 0) return opened;
  const auto n = opened->size(split::train);
  const auto split_off = std::llround(d.validation * static_cast<double>(n));
  if (split_off < 1 || split_off >= n)
    throw option_error("validation", "validation = " + number_text(d.validation) + " of " + std::to_string(n) +
                                         " training examples leaves no example to " + (split_off < 1 ? "evaluate" : "train") +
                                         " on");
  return with_validation(std::move(opened), d.validation, seed);
}

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
  if (worker < j.plan.ranges.size()) {
    const auto n = j.graph.packet_examples;
    c.shares.emplace();
    for (std::uint32_t w = 0; w < j.plan.ranges.size(); ++w)
      c.shares->add({j.plan.ranges[w].first * n, j.plan.ranges[w].count * n}, w, worker);
  }
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
    j.augment = std::make_shared<const augmentation>(*d.augment, j.data->example(), j.data->ids(), j.spec.seed, j.data->bytes(),
                                                     j.data->picture_order());
  } catch (const option_error& e) {
    const auto at = position(d.key_at, "augment", d.at);
    return unexpected(diagnostic{position(d.key_at, "augment." + e.key, at), "[data.augment]: " + std::string(e.what())});
  }
  return {};
}

namespace {

// Number of training labels of each class.
std::vector<std::int64_t> count_labels(const source& s, bool ids) {
  constexpr std::int64_t at_once = 256;
  const auto dev = make_cpu_device();
  auto& host = dev->host();
  std::vector<std::int64_t> counts(static_cast<std::size_t>(s.classes()));
  for (std::int64_t first = 0; first < s.size(split::train); first += at_once) {
    const auto n = std::min(at_once, s.size(split::train) - first);
    std::vector<std::int64_t> indices(static_cast<std::size_t>(n));
    std::iota(indices.begin(), indices.end(), first);
    shape data{n}, label{n};
    for (int i = 0; i < s.example().rank(); ++i) data.push_back(s.example()[i]);
    for (int i = 0; i < s.label().rank(); ++i) label.push_back(s.label()[i]);
    auto values = tensor::allocate(host, data, ids ? dtype::i32 : dtype::f32), labels = tensor::allocate(host, label, dtype::i32);
    s.read(split::train, indices, values, labels);
    for (std::int64_t k = 0; k < labels.count(); ++k)
      if (const auto l = labels.data<std::int32_t>()[k]; l >= 0 && l < s.classes()) ++counts[static_cast<std::size_t>(l)];
  }
  return counts;
}

std::vector<double> balanced_weights(const std::vector<std::int64_t>& counts) {
  const auto all = static_cast<double>(std::accumulate(counts.begin(), counts.end(), std::int64_t{0}));
  std::vector<double> weights;
  for (const auto n : counts) weights.push_back(n > 0 ? all / (static_cast<double>(counts.size()) * static_cast<double>(n)) : 0);
  return weights;
}

}  // namespace

expected<void, diagnostic> balance_classes(prepared_job& j) {
  std::vector<double> weights;
  for (auto& l : j.spec.layers) {
    const auto found = l.values.values.find("class_weights");
    if (found == l.values.values.end() || !std::holds_alternative<std::string>(found->second)) continue;
    const auto refused = [&](const std::string& why) {
      return unexpected(
          diagnostic{position(l.key_at, "class_weights", l.at), "layer '" + l.name + "': class_weights = \"balanced\": " + why});
    };
    if (j.data->classes() == 0) return refused("source '" + j.spec.data.source + "' has no class labels");
    try {
      if (weights.empty()) weights = balanced_weights(count_labels(*j.data, j.data->ids()));
    } catch (const std::runtime_error& e) {
      return refused(e.what());
    }
    found->second = weights;
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
  if (const auto n = make_eval_sampler(j)->examples(); n < 0)
    return unexpected(diagnostic{e.sampler.at, "[eval]: sampler '" + e.sampler.kind + "' announces " + std::to_string(n) +
                                                   " examples, which must not be negative"});
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
  if (j.spec.data.validation > 0)
    return unexpected(diagnostic{position(j.spec.data.key_at, "validation", j.spec.data.at),
                                 "algorithm = \"bptt\" carries state from example to example, but validation takes examples out "
                                 "of their order: use the source's test file or test_fraction"});
  if (const auto& mode = *j.all->modes.find(j.spec.train.sync.kind); mode.work_units)
    return unexpected(
        diagnostic{j.spec.train.sync.at, "algorithm = \"bptt\" keeps the state of a sequence with its worker, but mode '" +
                                             mode.name + "' deals packets to any free worker"});
  return {};
}

}  // namespace troupe
