#include "runtime/node/machine/machine_file.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>

#include "runtime/base/number_text.hpp"

namespace troupe::machine {
namespace {

constexpr double alike = 0.1;  // nodes that differ by less from the usual one get no entry of their own

std::string short_number(double x) { return general_text(x, 4); }
std::string rate(double r) { return r >= 1e9 ? "\"" + short_number(r / 1e9) + "GB/s\"" : "\"" + short_number(r / 1e6) + "MB/s\""; }
std::string time_text(double s) {
  return s >= 1e-3 ? "\"" + short_number(1e3 * s) + "ms\"" : "\"" + short_number(1e6 * s) + "us\"";
}

double middle(std::vector<double> list) {
  if (list.empty()) return 0;
  std::sort(list.begin(), list.end());
  return list[list.size() / 2];
}

std::string compute_table(const std::vector<measured_node>& nodes) {
  const auto of_a_core = [](const measured_node& n) {
    const auto& s = n.what.speed;
    return s.threads > 0 ? s.sgemm_all / s.threads : 0.0;
  };
  std::vector<double> flops, bytes;
  unsigned cores = 0;
  for (const auto& n : nodes) {
    if (of_a_core(n) <= 0) continue;
    flops.push_back(of_a_core(n));
    bytes.push_back(n.what.speed.memory_rate);
    cores = cores == 0 ? n.threads : std::min(cores, n.threads);
  }
  const auto usual = middle(flops);
  if (usual <= 0) return {};
  auto text = "\n[compute]\nflops_per_second = " + short_number(usual) + "  # of one core: sgemm, when all cores compute\n" +
              "bytes_per_second = " + rate(middle(bytes)) + "\ncores = " + std::to_string(cores) + "\n";
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const auto own = of_a_core(nodes[i]);
    if (own <= 0 || std::abs(own - usual) <= alike * usual) continue;
    text += "[[compute.slow]]\nnode = " + std::to_string(i + 1) + "  # " + nodes[i].name +
            "\nfactor = " + short_number(usual / own) + "\n";
  }
  return text;
}

std::string network_table(const std::vector<measured_node>& nodes, const std::vector<link>& links) {
  std::map<std::string, double> best;
  std::vector<double> rates, times;
  // Nodes of one machine share memory. Their connections count only if there are no others: the
  // model of a network has one rate for each node.
  const bool several_machines = std::any_of(links.begin(), links.end(), [](const link& l) { return !l.same_machine; });
  for (const auto& l : links) {
    if (several_machines && l.same_machine) continue;
    if (l.round_trip > 0) times.push_back(l.round_trip);
    if (l.rate <= 0) continue;
    for (const auto& end : {l.from, l.to}) best[end] = std::max(best[end], l.rate);
  }
  for (const auto& [node, r] : best) rates.push_back(r);
  const auto usual = middle(rates);
  if (usual <= 0) return {};
  // A message crosses two links of a star, and its answer two more.
  auto text = "\n[network]\nfabric = \"star\"\nbandwidth = " + rate(usual) + "\nlatency = " + time_text(middle(times) / 4) + "\n";
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const auto own = best.find(nodes[i].name);
    if (own == best.end() || std::abs(own->second - usual) <= alike * usual) continue;
    text +=
        "[[network.link]]\nnode = " + std::to_string(i + 1) + "  # " + nodes[i].name + "\nbandwidth = " + rate(own->second) + "\n";
  }
  return text;
}

std::string disk_table(const std::vector<measured_node>& nodes) {
  for (const auto& n : nodes)  // the first is the coordinator's, which writes checkpoints
    for (const auto& f : n.what.folders)
      if (f.write_rate > 0) return "\n[disk]\nbandwidth = " + rate(f.write_rate) + "\nlatency = " + time_text(f.sync) + "\n";
  return {};
}

}  // namespace

std::string machine_file(const std::vector<measured_node>& nodes, const std::vector<link>& links, const std::string& title) {
  return "# " + title + "\n# Read by `troupe sim --network FILE` and `troupe plan --machine FILE`.\n" +
         network_table(nodes, links) + compute_table(nodes) + disk_table(nodes);
}

}  // namespace troupe::machine
