#include "apps/commands/machine.hpp"

#include <algorithm>

#include "runtime/node/config/sim_file.hpp"

namespace troupe {

expected<machine_rates, diagnostics> read_machine(const std::string& file) {
  auto read = read_sim_file(file);
  if (!read) return unexpected(std::move(read).error());
  if (!read->has_network && !read->has_compute) {
    diagnostic d;
    d.at = {file, 1, 1};
    d.message = "the file has neither [network] nor [compute]; write it with: troupe doctor --cluster FILE --out " + file;
    return unexpected(diagnostics(1, d));
  }
  machine_rates m;
  const auto& n = read->network;
  if (read->has_network && n.bytes_per_second > 0) {
    m.exchange.emplace();
    m.exchange->bytes_per_second = n.bytes_per_second;
    m.exchange->latency = 2 * seconds_of(n.latency);  // a message crosses two links
  }
  const auto& c = read->compute;
  if (read->has_compute && c.flops_per_second > 0) m.teraflops = c.flops_per_second * c.cores / 1e12;
  return m;
}

std::vector<std::pair<std::string, double>> seconds_of_reducers(const exchange_rates& rates, const prepared_job& j) {
  std::vector<std::pair<std::string, double>> list;
  if (j.plan.workers.size() < 2) return list;
  const auto priced = priced_reducers(j, j.nodes);
  const auto best = cheapest(priced, rates);
  for (const auto& p : priced) list.emplace_back(p.name, p.cost.seconds(rates));
  // A simpler reducer that costs little more is the best one, and comes first.
  std::stable_sort(list.begin(), list.end(), [&](const auto& x, const auto& y) {
    return std::pair(x.first != best, x.second) < std::pair(y.first != best, y.second);
  });
  return list;
}

}  // namespace troupe
