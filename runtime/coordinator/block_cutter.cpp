#include "runtime/coordinator/block_cutter.hpp"

#include <utility>

#include "ops/device.hpp"
#include "runtime/plan/block_copy.hpp"
#include "runtime/plan/carried.hpp"

namespace troupe {

block_cutter::block_cutter(const model_graph& g, std::shared_ptr<const job_plan> p, const std::vector<std::string>& rule_states,
                           source from)
    : plan_(std::move(p)), cuts_(std::make_shared<std::vector<cut_block>>()) {
  for (const auto& piece : carried_pieces(g, *plan_)) {
    auto have = carried_from(from.named, g.layers[piece.layer], piece.packet);
    restore_state s{piece.block, have.empty() ? tensor{} : have[0], {}};
    if (have.size() > 1) s.rule.assign(have.begin() + 1, have.end());
    views_.push_back({piece.stage, 0, std::move(s)});
  }
  const std::map<std::string, tensor> named(from.named.begin(), from.named.end());
  for (const auto& block : plan_->blocks) {
    const auto& name = g.params[block.param].full_name;
    const auto part = [&](const tensor& whole) {
      const bool view = whole && block.run == 0;  // a job without maths has no values
      return view ? whole.slice(block.begin, {block.count}) : tensor::declare({block.count}, whole.type());
    };
    const auto updates = from.updates.find(name);
    cut_block cut{{block.shard, from.step, {block.id, {}, {}}}, block.id, {named.at(name)}};
    cut.block.what.value = part(cut.whole[0]);
    cut.block.what.updates = updates == from.updates.end() ? from.step : updates->second;
    for (const auto& state : rule_states)
      if (const auto at = named.find(name + "@" + state); at != named.end()) {
        cut.whole.push_back(at->second);
        cut.block.what.rule.push_back(part(at->second));
      }
    for (std::uint32_t group = 0; group < plan_->server_groups; ++group) {  // each group has all blocks
      cut.block.to = plan_->shard_of(block, group);
      if (block.run == 0)
        views_.push_back(cut.block);
      else
        cuts_->push_back(cut);
    }
  }
}

std::vector<restored_block> block_cutter::at_once() { return std::exchange(views_, {}); }

task_work block_cutter::cut() const {
  return [cuts = cuts_, plan = plan_](task_context& c) {
    for (auto& cut : *cuts)
      for (std::size_t k = 0; k < cut.whole.size(); ++k) {
        auto& part = k == 0 ? cut.block.what.value : cut.block.what.rule[k - 1];
        part.back(c.dev);
        copy_block_out(c.dev, cut.whole[k], plan->blocks[cut.id], part);
      }
  };
}

std::vector<restored_block> block_cutter::picked() {
  std::vector<restored_block> list;
  for (auto& cut : *cuts_) list.push_back(std::move(cut.block));
  cuts_->clear();
  return list;
}

}  // namespace troupe
