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
      push p{id, node.first, node.span, sum[i].slice(b.within(params[i].begin), {b.count}), (*config_.plan)[h.dst].across};
      const auto& codec = config_.graph->params[params[i].param].codec;
      if (!codec) count_pushed(codec.kind, p.sum.bytes(), p.sum.bytes());
      codec ? encoded.add(codec, {h, std::move(p)}, kept_) : out.send({h, std::move(p)});
    }
  }
  if (encoded.list.empty()) return;
  const auto cost = encoded.cost();
  const auto sent = std::make_shared<encoded_pushes>(std::move(encoded));
  tasks_.run([sent](task_context& c) { sent->encode(c.dev); }, cost,
             [this, sent](effects& more) {
               for (auto& e : sent->list) {
                 count_pushed(e.codec.kind, e.sum.bytes(), std::get<push>(e.sent.body).sum.bytes());
                 more.send(std::move(e.sent));
               }
             },
             out);
}

void worker_sync::count_pushed(codec_kind codec, std::uint64_t before, std::uint64_t sent) {
  const auto i = static_cast<std::size_t>(codec);
  auto& list = tally_.pushed;
  if (list.size() <= i) list.resize(i + 1);
  list[i].sums += before;
  list[i].sent += sent;
}

}  // namespace troupe
