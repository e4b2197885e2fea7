#include "runtime/sync/shard_histograms.hpp"

namespace troupe {

void tell_histograms(const shard_parts& p, const std::shared_ptr<block_histograms>& counted, effects& out) {
  if (counted->owes()) {
    p.tasks.run([counted](task_context&) { counted->finish(); }, {0, 0, "histogram"},
                [p, counted](effects& more) { tell_histograms(p, counted, more); }, out);
    return;
  }
  if (!counted->weight.result()) return;
  auto h = p.to(p.config.coordinator);
  h.step = counted->step;
  h.version = counted->version;
  histogram what{counted->block, *counted->weight.result(), {}};
  if (const auto& g = counted->gradient.result()) what.gradient.push_back(*g);
  out.send({h, std::move(what)});
}

void count_weights(const shard_parts& p, effects& out) {
  for (auto& b : p.blocks.take_countable()) {
    auto counted = std::make_shared<block_histograms>();
    counted->block = b.block;
    counted->step = b.step;
    counted->version = b.version;
    const auto bytes = static_cast<double>(b.value.bytes());
    p.tasks.run([value = std::move(b.value), counted](task_context& c) { counted->weight.take(c.dev, value); },
                {0, bytes, "histogram"}, [p, counted](effects& more) { tell_histograms(p, counted, more); }, out);
  }
}

}  // namespace troupe
