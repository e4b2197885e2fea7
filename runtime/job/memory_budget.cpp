#include "runtime/job/memory_budget.hpp"

#include <algorithm>
#include <set>

#include "runtime/base/wording.hpp"
#include "runtime/coordinator/report_sheet.hpp"
#include "runtime/cost/packet_memory.hpp"
#include "runtime/job/job_data.hpp"
#include "runtime/loader/reading.hpp"
#include "runtime/model/graph_check.hpp"

namespace troupe {
namespace {

double bytes_in(const shape& s, dtype t) { return static_cast<double>(s.count()) * static_cast<double>(size_of(t)); }

// The largest tensor of a packet or parameter on a node.
struct largest {
  double bytes = 0;
  std::string text = {};  // "its output 64x1x28x28"
  const graph_layer* layer = nullptr;
};

std::set<std::uint32_t> layers_on(const prepared_job& j, std::uint32_t node) {
  std::set<std::uint32_t> here;
  for (const auto& r : j.plan.roles)
    if (r.node == node) here.insert(r.layers.begin(), r.layers.end());
  return here;
}

largest largest_on(const prepared_job& j, std::uint32_t node) {
  const auto type = j.spec.type();
  largest most{bytes_in(j.graph.data, j.graph.data_type(type)), "its data " + j.graph.data.to_string()};
  const auto see = [&](double bytes, const graph_layer& l, const std::string& what, const shape& s) {
    if (bytes > most.bytes) most = {bytes, what + " " + s.to_string(), &l};
  };
  const auto here = layers_on(j, node);
  for (const auto& l : j.graph.layers) {
    if (!here.empty() && !here.count(l.index)) continue;
    for (const auto& s : l.out) see(bytes_in(s, type), l, "its output", s);
    for (auto p : l.params) {
      const auto& spec = j.graph.params[p].spec;
      see(bytes_in(spec.dims, j.spec.parameter_type()), l, "its parameter " + in_quotes(spec.name), spec.dims);
    }
  }
  return most;
}

// Returns the bytes that packets of [eval] batch need, if they are larger than training's; else 0.
// Counts the forward pass, of one stage at a time.
double evaluation_bytes(const prepared_job& j, std::uint32_t node) {
  const auto examples = eval_examples(j);
  if (examples <= j.graph.packet_examples) return 0;
  double peak = bytes_in(j.graph.data, j.graph.data_type(j.spec.type()));
  for (const auto& r : j.plan.roles) {
    if (r.node != node || !r.does().hosts_layers) continue;
    peak = std::max(peak, follow_packet(hosted_in(j.plan, j.graph, r, j.spec.parameter_type()), j.spec.type(), false).peak);
  }
  return peak * static_cast<double>(examples) / static_cast<double>(j.graph.packet_examples);
}

// Memory that depends on the number of examples: the orders of samplers (made in casting.cpp; the
// first worker's share is the largest), and the reports of an evaluation's packets, which the
// coordinator keeps until the evaluation ends (report_sheet.hpp).
struct counted_by_data {
  double order = 0, evaluation_order = 0, reports = 0;
  std::int64_t packets = 0;  // packets of an evaluation

  explicit counted_by_data(const prepared_job& j)
      : order(static_cast<double>(make_sampler(j, 0, j.spec.seed)->held_bytes())),
        evaluation_order(static_cast<double>(make_eval_sampler(j)->held_bytes())),
        packets(eval_packets(make_eval_sampler(j)->examples(), eval_examples(j))) {
    constexpr double of_report = 256;
    const auto stages = reporting_stages(j.graph, j.plan, false, j.plan.tester != no_role);
    reports = of_report * static_cast<double>(packets) * std::max(1u, stages);
  }
  double of(const prepared_job& j, const role_plan& r) const {
    const auto how = j.spec.data.how;
    if (r.kind == role_kind::coordinator) return reports;
    if (r.kind == role_kind::data_server)
      return evaluation_order + (how == delivery::server ? order * static_cast<double>(j.plan.ranges.size()) : 0);
    if (r.kind != role_kind::loader) return 0;
    const bool is_given = how == delivery::server || (how == delivery::broadcast && r.worker > 0);
    return (r.tester || is_given ? 0 : order) + (how == delivery::server ? 0 : evaluation_order);
  }
  double largest() const { return std::max({order, evaluation_order, reports}); }
  diagnostic says(const job_spec& s, const std::string& sentence) const {
    const auto is = sentence + " " + bytes_text(largest()) + " for ";
    if (largest() == reports)
      return {position_of(s.eval.key_at, "batch", s.eval.at),
              is + "the reports of the " + std::to_string(packets) +
                  " packets of an evaluation; a larger [eval] batch, or its sampler 'sample', reduces them"};
    return {
        largest() == order ? s.data.sampler.at : s.eval.sampler.at,
        is + "the order of examples that a sampler keeps; above 2^24 examples no sampler keeps one, and 'sequential' never does"};
  }
};

diagnostic refusal(const prepared_job& j, std::uint32_t node, double wants, const memory_budget& budget) {
  const auto most = largest_on(j, node);
  const auto& d = j.spec.data;
  if (const counted_by_data counted(j); counted.largest() > most.bytes)
    return counted.says(j.spec, "the job would hold about " + bytes_text(wants) + ", and " + budget.of + " " +
                                    bytes_text(budget.bytes) + ". The largest part of it is");
  const auto text = "the job would hold about " + bytes_text(wants) + ", and " + budget.of + " " + bytes_text(budget.bytes) +
                    ": the largest tensor is " + most.text + ", " + bytes_text(most.bytes) +
                    "; a smaller batch, more packets or recompute = true reduces it (`troupe plan` shows the memory by role)";
  if (most.layer) return mistake_of(*most.layer->spec, "", text);
  return {position_of(d.key_at, "batch", d.at), text};
}

}  // namespace

plan_memory memory_of(const prepared_job& j) {
  auto m = memory_of(j.plan, j.graph, j.spec);
  const counted_by_data counted(j);
  // Memory of the role, its actor and its entries in the plan. Measured: 10 KiB for a shard.
  constexpr double of_role = 12 << 10;
  for (const auto& r : j.plan.roles) {
    const auto bytes = of_role + counted.of(j, r);
    m.roles[index_of(r.id)].activations += bytes;
    m.nodes[r.node].activations += bytes;
  }
  return m;
}

double bytes_on(const prepared_job& j, std::uint32_t node) {
  return std::max(memory_of(j).nodes.at(node).total(), evaluation_bytes(j, node));
}

expected<void, diagnostic> check_memory(const prepared_job& j, std::uint32_t node, const memory_budget& budget) {
  if (budget.bytes <= 0 || node >= j.plan.nodes.size()) return {};
  const auto memory = memory_of(j);
  const auto wants = memory.nodes.at(node).total();
  if (wants > budget.bytes) return unexpected(refusal(j, node, wants, budget));
  const auto evaluating = evaluation_bytes(j, node);
  if (evaluating <= budget.bytes) return {};
  const auto& e = j.spec.eval;
  return unexpected(diagnostic{position_of(e.key_at, "batch", e.at), "an evaluation would hold about " + bytes_text(evaluating) +
                                                                         ", and " + budget.of + " " + bytes_text(budget.bytes) +
                                                                         ": a smaller [eval] batch reduces it"});
}

}  // namespace troupe
