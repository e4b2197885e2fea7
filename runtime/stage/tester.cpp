#include "runtime/stage/tester.hpp"

#include "ops/device.hpp"
#include "runtime/messages/fits.hpp"
#include "runtime/plan/block_copy.hpp"

namespace troupe {

header tester::to(role_id r) const {
  header h;
  h.job = config_.job;
  h.src = config_.self;
  h.dst = r;
  return h;
}

void tester::on(const envelope& e, time_point, effects& out) {
  std::visit(overloaded{
                 [&](const evaluate& v) {
                   if (v.round <= round_) return drop(drop_reason::repeated);
                   begin(v.round, v.average);
                   for (auto s : config_.plan->shards) {
                     auto h = to(s);
                     h.version = e.h.step;
                     if ((*config_.plan)[s].group == 0) out.send({h, collect{round_, average_}});
                   }
                 },
                 [&](const state& s) {
                   // Blocks from the coordinator begin a round by themselves.
                   if (e.h.src == config_.plan->roles.front().id && s.request > round_) begin(s.request, false);
                   take_state(s, out);
                 },
                 [&](const collect& c) {
                   if (e.h.src != config_.plan->roles.front().id) return drop(drop_reason::misaddressed);
                   if (c.request != given_ || evaluated_.empty()) return drop(drop_reason::outdated);
                   for (const auto& w : evaluated_) {
                     auto h = to(e.h.src);
                     h.version = given_;
                     out.send({h, w});
                   }
                 },
                 [&](const finished& f) {
                   if (f.token != round_ || !made_) return drop(drop_reason::unrequested);
                   give(out);
                 },
                 [&](const halt&) { out.stop(); },
                 [&](const auto&) { drop(drop_reason::unexpected); },
             },
             e.body);
}

void tester::begin(std::uint64_t round, bool average) {
  round_ = round;
  average_ = average;
  evaluated_.clear();
  blocks_.clear();
}

void tester::take_state(const state& s, effects& out) {
  if (s.request != round_ || made_ || given_ == round_) return drop(drop_reason::outdated);
  if (s.block >= config_.plan->blocks.size()) return drop(drop_reason::misaddressed);
  const auto& block = config_.plan->blocks[s.block];
  if (!holds(s.value, block.count, config_.type) || !all_hold(s.rule, block.count, config_.type) || (average_ && s.rule.empty()))
    return drop(drop_reason::malformed);
  blocks_[s.block] = average_ && has_average(config_.graph->params[block.param]) ? s.rule.back() : s.value;
  if (blocks_.size() < config_.plan->blocks.size()) return;
  made_ = std::make_shared<std::vector<tensors>>(config_.graph->layers.size());
  for (const auto& p : config_.graph->params) (*made_)[p.layer].push_back(tensor::declare(p.spec.dims, config_.type));
  out.run(
      [graph = config_.graph, plan = config_.plan, blocks = std::move(blocks_), made = made_](task_context& c) {
        for (const auto& b : plan->blocks) {
          const auto& p = graph->params[b.param];
          auto& whole = (*made)[p.layer][p.index_in_layer];
          whole.back(c.dev);
          copy_block_in(c.dev, blocks.at(b.id), b, whole);
        }
      },
      {0, 8.0 * static_cast<double>(config_.graph->parameter_count), "assemble"}, round_);
}

void tester::give(effects& out) {
  const auto& layers = (*config_.plan)[config_.plan->tester_stage].layers;
  for (auto l : layers) {
    if (config_.graph->layers[l].params.empty()) continue;
    auto h = to(config_.plan->tester_stage);
    h.version = round_;
    evaluated_.push_back({l, std::move((*made_)[l])});
    out.send({h, evaluated_.back()});
  }
  made_.reset();
  blocks_.clear();
  given_ = round_;  // further blocks of this round are outdated
}

role_status tester::status() const {
  role_status s;
  s.version = round_;
  s.queued = static_cast<std::uint32_t>(blocks_.size());
  if (!blocks_.empty() && !made_)
    s.wait(wait_kind::weights, std::to_string(config_.plan->blocks.size() - blocks_.size()) + " blocks of parameters");
  return s;
}

}  // namespace troupe
