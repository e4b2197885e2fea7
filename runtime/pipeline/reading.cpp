#include "runtime/pipeline/reading.hpp"

#include <algorithm>

#include "ops/device.hpp"
#include "ops/layer.hpp"

namespace troupe {

std::uint32_t eval_packets(std::int64_t examples, std::int64_t packet_examples) {
  return packet_examples > 0 ? static_cast<std::uint32_t>((examples + packet_examples - 1) / packet_examples) : 0;
}

std::vector<std::int64_t> eval_indices(const reading_config& c, const header& h) {
  const auto first = static_cast<std::int64_t>(h.packet) * c.eval_examples;
  auto list = c.eval->indices(h.version, first, std::min(c.eval_examples, c.eval->examples() - first));
  list.resize(static_cast<std::size_t>(c.eval_examples), -1);
  return list;
}

void begin_reading(const std::shared_ptr<reading>& r, const reading_config& c, std::uint64_t token, effects& out) {
  const auto n = static_cast<std::int64_t>(r->indices.size());
  auto data = c.graph->data;
  data.set(0, n);
  auto label = c.graph->label;
  label.set(0, n);
  r->data = tensor::declare(data, c.graph->ids ? dtype::i32 : c.type);
  r->label = tensor::declare(label, dtype::i32);
  const auto from = r->h.phase == static_cast<std::uint8_t>(phase::train) ? split::train : c.eval_split;
  const job_cost cost{0, static_cast<double>(r->data.bytes()), "load"};
  out.run(
      [r, from, source = c.data](job_context& j) {
        r->data.back(j.dev);
        r->label.back(j.dev);
        source->read(from, r->indices, r->data, r->label);
      },
      cost, token);
}

}  // namespace troupe
