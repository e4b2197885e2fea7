#include "runtime/job/auto_reducer.hpp"

#include <algorithm>

#include "ops/tree/packet_tree.hpp"
#include "runtime/job/job_mode.hpp"
#include "runtime/job/options_of_plan.hpp"

namespace troupe {
namespace {

constexpr double as_cheap = 0.95;  // a less simple reducer must cost less than this fraction of the simpler one

// Counts the messages between nodes, by node.
class message_count {
 public:
  explicit message_count(const job_plan& p) : p_(p), of_(p.nodes.size()) {}
  void add(role_id from, role_id to, double n) {
    const auto a = p_[from].node, b = p_[to].node;
    if (a == b) return;
    of_[a] += n, of_[b] += n;
  }
  double most() const { return of_.empty() ? 0 : *std::max_element(of_.begin(), of_.end()); }

 private:
  const job_plan& p_;
  std::vector<double> of_;
};

double messages_of(const job_plan& p) {
  message_count count(p);
  for (const auto& b : p.blocks) {
    for (std::uint32_t w = 0; w < p.workers.size(); ++w) {
      if (!p.takes(w, b)) continue;
      const auto range = p.range_of(w);
      count.add(p.workers[w], p.push_to(w, b), 1.0 + static_cast<double>(cover(range.first, range.count, p.packets).size()));
    }
    for (auto r : p.reducers) count.add(r, p.above(r, b), 1.0 + p.sums_up(r));
  }
  return count.most();
}

std::uint32_t hops_of(const job_plan& p) {
  if (p.blocks.empty()) return 0;
  if (p.ring) return 2 * static_cast<std::uint32_t>(p.reducers.size());
  std::uint32_t most = 1;
  for (auto r : p.reducers) {
    std::uint32_t hops = 2;
    for (auto at = r; p[at].above != no_role; at = p[at].above) ++hops;
    most = std::max(most, hops);
  }
  return 2 * most;
}

}  // namespace

exchange_cost cost_of_exchange(const job_plan& p, const model_graph& g, const job_spec& spec) {
  const auto costs = cost_of(p, g, spec);
  exchange_cost c{0, messages_of(p), hops_of(p)};
  for (const auto* side : {&costs.bytes_per_step, &costs.received})
    for (const auto& [node, bytes] : *side) c.bytes = std::max(c.bytes, bytes);
  return c;
}

std::vector<priced_reducer> priced_reducers(const prepared_job& j, const std::vector<node_spec>& nodes) {
  std::vector<priced_reducer> all;
  auto one = j;
  for (const char* name : {"server", "sharded", "hierarchical", "tree"}) {
    const auto* entry = j.all->reducers.find(name);
    if (!entry) continue;
    one.spec.train.reducer = name;
    one.spec.train.reducer_values = check_options({}, entry->specs);
    auto plan = make_plan(one.spec, one.graph, nodes, options_of_plan(one));
    if (!plan.has_value()) continue;
    one.plan = std::move(*plan);
    if (!check_mode(one)) continue;
    all.push_back({name, cost_of_exchange(one.plan, one.graph, one.spec)});
  }
  return all;
}

std::string cheapest(const std::vector<priced_reducer>& all, const exchange_rates& rates) {
  std::string name = "server";
  double least = 0;
  for (const auto& one : all) {
    const auto seconds = one.cost.seconds(rates);
    if (&one != &all.front() && seconds >= least * as_cheap) continue;
    name = one.name, least = seconds;
  }
  return name;
}

void choose_reducer(prepared_job& j, const std::vector<node_spec>& nodes) {
  auto& t = j.spec.train;
  if (t.reducer != "auto") return;
  t.reducer = cheapest(priced_reducers(j, nodes));
  t.reducer_values = check_options({}, j.all->reducers.find(t.reducer)->specs);
}

}  // namespace troupe
