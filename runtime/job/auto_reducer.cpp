#include "runtime/job/auto_reducer.hpp"

#include <algorithm>

#include "runtime/cost/plan_traffic.hpp"
#include "runtime/job/job_mode.hpp"
#include "runtime/job/options_of_plan.hpp"

namespace troupe {
namespace {

constexpr double as_cheap = 0.95;  // a less simple reducer must cost less than this fraction of the simpler one

double most_of(const std::vector<double>& list) { return list.empty() ? 0 : *std::max_element(list.begin(), list.end()); }

// Messages of the busiest node, sent and received.
double messages_of(const job_plan& p) {
  auto all = messages_by_node(p);
  for (std::size_t n = 0; n < all.sent.size(); ++n) all.sent[n] += all.received[n];
  return most_of(all.sent);
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
  const auto bytes = bytes_by_node(p, g, spec);
  return {std::max(most_of(bytes.sent), most_of(bytes.received)), messages_of(p), hops_of(p)};
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
