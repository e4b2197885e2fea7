#include "runtime/graph/plan_memory.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "runtime/graph/packet_memory.hpp"

namespace troupe {
namespace {

double bytes_of(std::int64_t elements, dtype t) { return static_cast<double>(elements) * static_cast<double>(size_of(t)); }

class estimate {
 public:
  estimate(const job_plan& p, const model_graph& g, const job_spec& job)
      : p_(p), g_(g), job_(job), type_(job.type()), of_parameters_(job.parameter_type()) {}

  plan_memory make() {
    m_.roles.resize(p_.roles.size());
    m_.nodes.resize(p_.nodes.size());
    for (const auto& r : p_.roles) {
      auto& mine = at(r.id);
      if (r.kind == role_kind::shard) shard(r, mine);
      if (r.kind == role_kind::worker || r.kind == role_kind::reducer) worker(r, mine);
      if (r.kind == role_kind::stage) mine.parameters = versions(r);
      if (r.kind == role_kind::loader) mine.activations = examples() * (r.tester ? 1 : p_.in_flight() + r.slots);
      if (r.kind == role_kind::data_server && job_.data.how == delivery::server) mine.activations = examples() * (1 + r.slots);
      auto& node = m_.nodes[r.node];
      node.parameters += mine.parameters, node.gradients += mine.gradients, node.states += mine.states;
      node.activations += mine.activations;
    }
    for (std::uint32_t w = 0; w < p_.stages.size(); ++w) half(p_.stages[w]);
    if (p_.tester_stage != no_role) half({p_.tester_stage});
    return std::move(m_);
  }

 private:
  role_memory& at(role_id r) { return m_.roles[index_of(r)]; }
  double block_bytes(const param_block& b) const { return bytes_of(b.count, of_parameters_); }
  double examples() const {
    return bytes_of(g_.data.count(), g_.ids ? dtype::i32 : type_) + bytes_of(g_.label.count(), dtype::i32);
  }
  bool cut(const param_block& b) const { return b.count != g_.params[b.param].spec.dims.count(); }

  // New weights are made in the gradient's memory unless that holds more than the block, or others see it.
  void shard(const role_plan& r, role_memory& m) const {
    for (const auto& b : p_.blocks) {
      if (p_.shard_of(b, r.group) != r.id) continue;
      const auto bytes = block_bytes(b);
      m.parameters += bytes;
      m.states += g_.params[b.param].spec.trainable ? p_.rule_states * bytes : 0;
      if (cut(b) && b.takers.empty()) m.gradients += bytes;
      if (p_.nodes.size() > 1) m.parameters += bytes;  // the value before, for a worker that was restarted
    }
  }

  // Sums in the tree over the packets that are here, one more for each packet that is beside the first.
  void worker(const role_plan& r, role_memory& m) const {
    const auto packets = std::max(1u, r.packets.count);
    const auto sums = std::min(packets, static_cast<std::uint32_t>(std::bit_width(packets - 1)) + p_.sub_solvers);
    for (const auto& b : p_.blocks) {
      if (!p_.takes(r.worker, b)) continue;
      m.gradients += block_bytes(b) * sums;
      const bool away = p_[p_.shard_of(b, p_.group_of(r.worker).server_group)].node != r.node;
      if (away || (cut(b) && b.takers.empty())) m.parameters += block_bytes(b);  // received, or put together
    }
  }

  // Bytes of the older versions of its weights that a stage keeps with weights = "stash".
  double versions(const role_plan& r) const {
    double sum = 0;
    if (p_.rule != weight_rule::stash || r.tester) return 0;
    for (const auto& h : hosted_in(p_, g_, r, of_parameters_)) sum += h.delayed;
    return sum;
  }

  // One worker's stages on one node, which pass packets on to each other.
  void half(const std::vector<role_id>& stages) {
    std::vector<hosted_step> list;
    std::uint32_t in_flight = 1;
    for (auto s : stages) {
      const auto more = hosted_in(p_, g_, p_[s], of_parameters_);
      list.insert(list.end(), more.begin(), more.end());
      if (!p_[s].tester) in_flight = std::max(in_flight, p_[s].train_slots);
    }
    std::stable_sort(list.begin(), list.end(), [](const auto& a, const auto& b) { return a.first->index < b.first->index; });
    const auto packet = follow_packet(list, type_, stages.empty() || !p_[stages[0]].tester);
    for (std::size_t i = 0; i < list.size(); ++i) {
      auto& m = at(list[i].stage);
      m.activations += packet.kept[i] * in_flight;
      m.workspace = std::max(m.workspace, packet.working[i]);
    }
    if (stages.empty()) return;
    auto& node = m_.nodes[p_[stages[0]].node];
    node.activations += (packet.peak - packet.workspace) * in_flight;
    node.workspace += packet.workspace * in_flight;
  }

  const job_plan& p_;
  const model_graph& g_;
  const job_spec& job_;
  const dtype type_, of_parameters_;
  plan_memory m_;
};

}  // namespace

plan_memory memory_of(const job_plan& p, const model_graph& g, const job_spec& job) { return estimate(p, g, job).make(); }

}  // namespace troupe
