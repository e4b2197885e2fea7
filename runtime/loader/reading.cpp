#include "runtime/loader/reading.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "ops/device.hpp"
#include "ops/layer.hpp"

namespace troupe {

std::uint32_t eval_packets(std::int64_t examples, std::int64_t packet_examples) {
  return packet_examples > 0 ? static_cast<std::uint32_t>((examples + packet_examples - 1) / packet_examples) : 0;
}

static void check_count(const std::vector<std::int64_t>& indices, std::int64_t count) {
  if (const auto n = static_cast<std::int64_t>(indices.size()); n != count)
    throw std::runtime_error("the sampler returned " + std::to_string(n) + " examples for a packet of " + std::to_string(count));
}

std::vector<std::int64_t> eval_indices(const reading_config& c, const header& h) {
  const auto first = static_cast<std::int64_t>(h.packet) * c.eval_examples;
  const auto count = std::min(c.eval_examples, c.eval->examples() - first);
  auto list = c.eval->indices(h.version, first, count);
  check_count(list, count);
  list.resize(static_cast<std::size_t>(c.eval_examples), -1);
  return list;
}

void read_examples(const source& from, const augmentation* augment, split part, const header& h,
                   const std::vector<std::int64_t>& indices, device& dev, tensor& data, tensor& label) {
  if (label.type() == dtype::bf16) {  // sources and augmentations support f32 and f64 only
    tensor values = tensor::allocate(dev, label.dims(), dtype::f32);
    read_examples(from, augment, part, h, indices, dev, data, values);
    return dev.copy(values, label);
  }
  if (data.type() == dtype::bf16) {
    tensor values = tensor::allocate(dev, data.dims(), dtype::f32);
    read_examples(from, augment, part, h, indices, dev, values, label);
    return dev.copy(values, data);
  }
  if (!augment) return from.read(part, indices, data, label);
  const auto n = static_cast<std::int64_t>(indices.size());
  shape dims{n};
  for (int i = 0; i < augment->example_in().rank(); ++i) dims.push_back(augment->example_in()[i]);
  auto raw = tensor::allocate(dev, dims, data.type());
  from.read(part, indices, raw, label);
  if (h.phase == static_cast<std::uint8_t>(phase::train))
    augment->training(h.step, h.packet * n, indices, raw, data);
  else
    augment->test(indices, raw, data);
}

static const char* word_of(split part) { return part == split::train ? "training" : "test"; }

void check_indices(const source& from, split part, const std::vector<std::int64_t>& indices, std::int64_t count) {
  check_count(indices, count);
  const auto all = from.size(part);
  const auto beyond = std::find_if(indices.begin(), indices.end(), [all](std::int64_t i) { return i >= all; });
  if (beyond == indices.end()) return;
  throw std::runtime_error(std::string("the sampler returned ") + word_of(part) + " example " + std::to_string(*beyond) +
                           ", but the source has " + std::to_string(all) + ", which are numbered from 0");
}

void check_ids(const model_graph& g, split part, const std::vector<std::int64_t>& indices, const tensor& data,
               const tensor& label) {
  const auto below = [&](const tensor& t, std::int64_t bound, const char* what, const char* of_them) {
    if (bound == 0 || indices.empty()) return;
    const auto* values = t.data<std::int32_t>();
    const auto each = t.count() / static_cast<std::int64_t>(indices.size());
    const auto* found = std::find_if(values, values + t.count(), [bound](std::int32_t v) { return v >= bound; });
    if (found == values + t.count()) return;
    throw std::runtime_error(std::string("the source returned ") + word_of(part) + " example " +
                             std::to_string(indices[static_cast<std::size_t>((found - values) / each)]) + " with " + what + " " +
                             std::to_string(*found) + ", but declares " + std::to_string(bound) + " " + of_them);
  };
  below(label, g.label_below, "label", "classes");
  below(data, g.id_below, "id", "ids");
}

void begin_reading(const std::shared_ptr<reading>& r, const reading_config& c, std::uint64_t token, effects& out,
                   std::uint32_t slot) {
  const auto n = static_cast<std::int64_t>(r->indices.size());
  auto data = c.graph->data;
  data.set(0, n);
  auto label = c.graph->label;
  label.set(0, n);
  r->data = tensor::declare(data, c.graph->data_type(c.type));
  r->label = tensor::declare(label, c.graph->label_type(c.type));
  const auto from = r->h.phase == static_cast<std::uint8_t>(phase::train) ? split::train : c.eval_split;
  const task_cost cost{0, static_cast<double>(r->data.bytes()), "load"};
  const auto wanted = r->h.phase == static_cast<std::uint8_t>(phase::train) ? c.graph->data[0] : n;
  out.run(
      [r, from, wanted, source = c.data, augment = c.augment, graph = c.graph](task_context& j) {
        check_indices(*source, from, r->indices, wanted);
        auto& host = j.dev.host();
        r->data.back(host);
        r->label.back(host);
        read_examples(*source, augment.get(), from, r->h, r->indices, host, r->data, r->label);
        check_ids(*graph, from, r->indices, r->data, r->label);
      },
      cost, token, slot);
}

}  // namespace troupe
