// Pushes a worker's sums to the shards: block by block, as they are or encoded.
#include "runtime/sync/worker_sync.hpp"

namespace troupe {

void worker_sync::push_sum(std::uint32_t layer, std::uint64_t step, tree_node node, const tensors& sum, effects& out) {
  const auto& params = layers_[layer].params;
  encoded_pushes encoded;
  for (std::size_t i = 0; i < params.size() && i < sum.size(); ++i) {
    if (!sum[i]) continue;
    for (auto id : blocks_of_[params[i].param]) {
      const auto& b = block_at(id);
      auto h = to(config_.plan->push_to(config_.worker, b));
      h.step = step;
      if ((*config_.plan)[h.dst].across) h.flags |= flag_across;
      push p{id, node.first, node.span, sum[i].slice(b.within(params[i].begin), {b.count})};
      const auto& codec = config_.graph->params[params[i].param].codec;
      codec ? encoded.add(codec, {h, std::move(p)}, kept_) : out.send({h, std::move(p)});
    }
  }
  if (encoded.list.empty()) return;
  const auto cost = encoded.cost();
  const auto sent = std::make_shared<encoded_pushes>(std::move(encoded));
  tasks_.run([sent](task_context& c) { sent->encode(c.dev); }, cost,
             [sent](effects& more) {
               for (auto& e : sent->list) more.send(std::move(e.sent));
             },
             out);
}

}  // namespace troupe
