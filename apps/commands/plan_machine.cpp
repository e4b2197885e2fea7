// `troupe plan --machine FILE`: measured rates ([network] and [compute] of a simulation file, which
// `troupe doctor --out` writes) in place of assumed ones.
#include <algorithm>
#include <utility>

#include "apps/commands/plan.hpp"
#include "runtime/node/config/sim_file.hpp"

namespace troupe {

diagnostics read_machine(plan_arguments& a) {
  const auto read = read_sim_file(a.machine);
  if (!read) return read.error();
  if (!read->has_network && !read->has_compute) {
    diagnostic d;
    d.at = {a.machine, 1, 1};
    d.message = "the file has neither [network] nor [compute]; write it with: troupe doctor --cluster FILE --out " + a.machine;
    return diagnostics(1, d);
  }
  const auto& n = read->network;
  if (read->has_network && n.bytes_per_second > 0) {
    a.gigabits = n.bytes_per_second * 8 / 1e9;
    a.exchange.bytes_per_second = n.bytes_per_second;
    a.exchange.latency = 2 * seconds_of(n.latency);  // a message crosses two links
  }
  const auto& c = read->compute;
  if (read->has_compute && c.flops_per_second > 0) a.teraflops = c.flops_per_second * c.cores / 1e12;
  return {};
}

std::vector<std::pair<std::string, double>> seconds_of_reducers(const plan_arguments& a, const prepared_job& j) {
  std::vector<std::pair<std::string, double>> list;
  if (j.plan.workers.size() < 2) return list;
  const auto priced = priced_reducers(j, j.nodes);
  const auto best = cheapest(priced, a.exchange);
  for (const auto& p : priced) list.emplace_back(p.name, p.cost.seconds(a.exchange));
  // A simpler reducer that costs little more is the best one, and comes first.
  std::stable_sort(list.begin(), list.end(), [&](const auto& x, const auto& y) {
    return std::pair(x.first != best, x.second) < std::pair(y.first != best, y.second);
  });
  return list;
}

std::string reducers_text(const plan_arguments& a, const prepared_job& j) {
  const auto list = seconds_of_reducers(a, j);
  if (list.empty()) return {};
  std::string s = "\nexchange of a step, at the rates of " + a.machine + ": ";
  for (const auto& [name, seconds] : list)
    s += (&name == &list.front().first ? "" : ", ") + name + " " + fixed(1e3 * seconds, 2) + " ms";
  const auto& best = list.front().first;
  return s + (best == j.spec.train.reducer ? "\n" : "\nset train.exchange.reducer = \"" + best + "\"\n");
}

}  // namespace troupe
