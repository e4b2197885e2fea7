#include "apps/commands/develop/sim_report.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "apps/cli/registry.hpp"
#include "apps/cli/screen.hpp"
#include "runtime/base/wording.hpp"
#include "runtime/job/auto_reducer.hpp"

namespace troupe {
namespace {

constexpr double enough_to_limit = 0.5;  // a resource that is busy for less of the time does not limit the run

std::string rate_text(double per_second, const char* unit) {
  static const char* const prefixes[] = {"", "k", "M", "G", "T"};
  std::size_t p = 0;
  while (per_second >= 999.5 && p + 1 < std::size(prefixes)) per_second /= 1000, ++p;
  return number_text(std::round(per_second * 100) / 100) + " " + prefixes[p] + unit;
}

std::string duration_text(duration d) {
  const auto ns = static_cast<double>(d.count());
  if (ns < 1e3) return number_text(ns) + " ns";
  if (ns < 1e6) return number_text(ns / 1e3) + " us";
  if (ns < 1e9) return number_text(ns / 1e6) + " ms";
  return number_text(ns / 1e9) + " s";
}

std::string percent_text(double part) { return fixed(100 * part, 0) + " %"; }
std::string count_of(double n) { return with_commas(static_cast<std::uint64_t>(std::llround(n))); }

// "3 messages lost, 12 delayed": the counts that are not 0.
std::string counts_text(const std::vector<std::pair<std::uint64_t, const char*>>& list) {
  std::string s;
  for (const auto& [n, what] : list)
    if (n > 0) s += (s.empty() ? "" : ", ") + with_commas(n) + " " + what;
  return s;
}

}  // namespace

const char* name_of(sim_bottleneck::kind k) {
  switch (k) {
    case sim_bottleneck::kind::link: return "link";
    case sim_bottleneck::kind::uplink: return "uplink";
    case sim_bottleneck::kind::cores: return "cores";
    case sim_bottleneck::kind::role: return "role";
    case sim_bottleneck::kind::latency: return "latency";
  }
  return "";
}

sim_report::sim_report(const sim_setup& s)
    : s_(s), role_busy_(s.job->plan.roles.size()), node_busy_(s.job->plan.nodes.size()), pushes_(s.job->plan.roles.size()) {}

void sim_report::span(role_id r, const char*, time_point begin, time_point end) {
  const auto seconds = seconds_of(end - begin);
  role_busy_[index_of(r)] += seconds;
  node_busy_[s_.job->plan[r].node] += seconds;
}

void sim_report::delivered(const envelope& e) {
  if (std::holds_alternative<push>(e.body) && index_of(e.h.dst) < pushes_.size()) ++pushes_[index_of(e.h.dst)];
}

std::string sim_report::models_text() const {
  const auto& n = s_.world.network;
  std::string s = n.fabric == sim::fabric_kind::star   ? "star"
                  : n.fabric == sim::fabric_kind::tree ? "tree with racks of " + std::to_string(n.rack) + " nodes"
                                                       : "uniform";
  const auto rate = n.bytes_per_second > 0 ? rate_text(n.bytes_per_second, "B/s") : std::string("unlimited bandwidth");
  if (n.fabric == sim::fabric_kind::uniform) {
    s += ": latency " + duration_text(n.least) + " to " + duration_text(n.most) + ", " + rate + " a message, no contention";
  } else {
    s += ": links of " + rate + (n.full_duplex ? " each way" : " for both ways") + ", latency " + duration_text(n.latency);
    if (n.jitter.count() > 0) s += " and up to " + duration_text(n.jitter) + " more";
    if (n.fabric == sim::fabric_kind::tree && n.uplink_bytes_per_second > 0)
      s += ", uplinks of " + rate_text(n.uplink_bytes_per_second, "B/s");
    else if (n.fabric == sim::fabric_kind::tree && n.oversubscription != 1)
      s += ", uplinks oversubscribed " + number_text(n.oversubscription) + " times";
    if (!n.node_bytes_per_second.empty()) s += ", " + std::to_string(n.node_bytes_per_second.size()) + " with other links";
  }
  if (!s_.named_network) s += " (default; --network FILE)";
  const auto& c = s_.world.compute;
  std::string speed =
      s_.measured.empty() ? rate_text(c.flops_per_second, "FLOP/s") + " a core" : "layers as measured on this machine";
  speed += ", " + std::to_string(c.cores) + (c.cores == 1 ? " core a node" : " cores a node");
  if (c.kind != sim::straggle::none) speed += ", with stragglers";
  if (!c.slow.empty()) speed += ", " + std::to_string(c.slow.size()) + (c.slow.size() == 1 ? " slow node" : " slow nodes");
  if (!s_.named_compute) speed += " (default; [compute] of that file)";
  const auto terminal = screen::of_stdout();
  return labelled(terminal, "network", s) + labelled(terminal, "compute", speed);
}

std::string text_of(const sim::fault_counts& c) {
  auto hit = counts_text({{c.delayed, "messages delayed"},
                          {c.reordered, "reordered"},
                          {c.duplicated_on_wire, "sent twice on the wire"},
                          {c.duplicated_above, "delivered twice to their role"},
                          {c.dropped, "lost on the wire"},
                          {c.cut_off, "lost in a partition"},
                          {c.slowed, "tasks slowed down"},
                          {c.straggled, "tasks of stragglers"},
                          {c.slow_stores, "checkpoints written slowly"},
                          {c.left_out, "checkpoints skipped"},
                          {c.lost_in_crash, "messages and tasks lost in crashes"},
                          {c.lost_updates, "updates of shared parameters overwritten"}});
  const auto answers = counts_text({{c.resent, "sent again"},
                                    {c.wire_duplicates, "copies dropped"},
                                    {c.held, "held behind a gap"},
                                    {c.stale, "of former plans dropped"}});
  if (answers.empty()) return hit;
  return hit + (hit.empty() ? "" : "; ") + "channels: " + answers;
}

nlohmann::ordered_json json_of(const sim::fault_counts& c) {
  return {{"delayed", c.delayed},
          {"reordered", c.reordered},
          {"duplicated_on_wire", c.duplicated_on_wire},
          {"duplicated_above", c.duplicated_above},
          {"dropped", c.dropped},
          {"cut_off", c.cut_off},
          {"slowed", c.slowed},
          {"straggled", c.straggled},
          {"crashed", c.crashed},
          {"restarted", c.restarted},
          {"stored", c.stored},
          {"left_out", c.left_out},
          {"slow_stores", c.slow_stores},
          {"lost_in_crash", c.lost_in_crash},
          {"lost_updates", c.lost_updates},
          {"stale", c.stale},
          {"resent", c.resent},
          {"wire_duplicates", c.wire_duplicates},
          {"held", c.held}};
}

std::string sim_report::faults_text(const sim::world& w) const {
  const auto terminal = screen::of_stdout();
  const auto counts = text_of(w.counts());
  if (!counts.empty()) return labelled(terminal, "faults", counts);
  return labelled(terminal, "faults", s_.world.faults.list.empty() ? "none (--faults FILE)" : "none happened");
}

// What uses a busy link of this node.
std::string sim_report::why_busy(std::uint32_t node, bool in, std::uint64_t messages, double steps) const {
  role_id most = no_role;
  std::uint64_t pushes = 0;
  for (const auto& r : s_.job->plan.roles) {
    if (r.node != node || pushes_[index_of(r.id)] == 0) continue;
    pushes += pushes_[index_of(r.id)];
    if (most == no_role || pushes_[index_of(r.id)] > pushes_[index_of(most)]) most = r.id;
  }
  const auto each = count_of(static_cast<double>(messages) / steps);
  if (most == no_role) return "it carries " + each + " messages a step";
  const auto& name = s_.job->plan[most].name;
  if (in) return name + " receives " + count_of(static_cast<double>(pushes_[index_of(most)]) / steps) + " pushes a step";
  return name + " sends weights: " + each + " messages a step";
}

// How to move fewer gradients and weights through this node.
std::string sim_report::exchange_advice(std::uint32_t node) const {
  const auto& j = *s_.job;
  const auto& t = j.spec.train;
  const bool has_shard = std::any_of(j.plan.shards.begin(), j.plan.shards.end(), [&](role_id r) { return j.plan[r].node == node; });
  std::string s;
  const auto priced = priced_reducers(j, j.nodes);
  exchange_rates rates;
  if (s_.world.network.bytes_per_second > 0) rates.bytes_per_second = s_.world.network.bytes_per_second;
  rates.latency = seconds_of(s_.world.network.latency);
  const auto best = cheapest(priced, rates);
  const auto of = [&](const std::string& name) {
    return std::find_if(priced.begin(), priced.end(), [&](const priced_reducer& p) { return p.name == name; });
  };
  if (const auto chosen = of(best); chosen != priced.end() && best != t.reducer) {
    s = "use [train.exchange] reducer = \"" + best + "\"";
    const auto now = cost_of_exchange(j.plan, j.graph, j.spec).bytes;
    s += ": " + bytes_text(chosen->cost.bytes) + " a step through the busiest node instead of " + bytes_text(now);
  }
  if (has_shard && j.plan.servers_per_group < j.plan.workers.size())
    s += std::string(s.empty() ? "use" : ", or") + " more servers ([topology] servers_per_group, now " +
         std::to_string(j.plan.servers_per_group) + ")";
  if (t.compress == "none") s += std::string(s.empty() ? "use" : ", or") + " smaller gradients ([train.exchange] compress)";
  return s;
}

void sim_report::consider_links(sim_bottleneck& b, const sim::world& w, double steps, double all) const {
  const auto& links = w.wires().links();
  const auto nodes = s_.job->plan.nodes.size();
  const auto busiest = std::max_element(links.begin(), links.end(), [](const auto& x, const auto& y) { return x.busy < y.busy; });
  if (busiest == links.end() || seconds_of(busiest->busy) / all <= b.busy) return;
  const auto i = static_cast<std::uint32_t>(busiest - links.begin());
  const bool of_node = i < 2 * nodes;
  b = {of_node ? sim_bottleneck::kind::link : sim_bottleneck::kind::uplink,
       w.wires().name_of(i),
       seconds_of(busiest->busy) / all,
       {},
       {}};
  if (b.busy < enough_to_limit) return;
  b.why = of_node ? why_busy(i / 2, i % 2 == 1, busiest->messages, steps)
                  : "it carries " + bytes_text(static_cast<double>(busiest->bytes) / steps) + " between racks a step";
  b.advice = of_node ? std::string() : "use [train.exchange] reducer = \"hierarchical\", which adds in the racks first";
}

void sim_report::consider_cores(sim_bottleneck& b, double all) const {
  double sum = 0;
  for (const auto x : node_busy_) sum += x;
  for (std::size_t n = 0; n < node_busy_.size(); ++n) {
    const auto cores = static_cast<double>(std::max(s_.world.compute.cores, 1u));
    const double busy = node_busy_[n] / (all * cores), mean = sum / (all * cores * static_cast<double>(node_busy_.size()));
    if (busy <= b.busy) continue;
    b = {sim_bottleneck::kind::cores, s_.job->plan.nodes[n].name, busy, {}, {}};
    b.why = node_busy_.size() > 1 ? "the cores of all nodes are busy " + percent_text(mean) + " on average" : "";
    b.advice = mean < 0.67 * busy ? "give this node fewer roles or packets, or use a mode that waits less for it (ssp, sandblaster)"
                                  : "more nodes make a step shorter";
  }
}

void sim_report::consider_roles(sim_bottleneck& b, double all) const {
  for (const auto& r : s_.job->plan.roles) {
    const double busy = role_busy_[index_of(r.id)] / (all * std::max(r.slots, 1u));
    if (busy <= b.busy) continue;
    b = {sim_bottleneck::kind::role, r.name, busy, {}, {}};
    if (r.does().owns_parameters)
      b.why = "it updates parameters", b.advice = "use more servers ([topology] servers_per_group)";
    else if (r.does().reads_examples)
      b.why = "it reads examples", b.advice = "use more readers ([data] readers)";
    else if (r.does().adds != role_sums::none)
      b.why = "it adds gradients";
    else if (r.does().hosts_layers)
      b.why = "it computes its layers", b.advice = "use more sub_solvers ([pipeline]), or partition its layers";
  }
}

sim_bottleneck sim_report::bottleneck(const sim::world& w, double steps) const {
  const double all = std::max(seconds_of(w.now()), 1e-12);
  sim_bottleneck b;
  consider_links(b, w, std::max(steps, 1.0), all);
  consider_cores(b, all);
  consider_roles(b, all);
  if (b.busy < enough_to_limit) {
    b.what = sim_bottleneck::kind::latency;
    b.why = s_.world.faults.list.empty() ? "steps wait for latencies and for other nodes"
                                         : "steps wait for latencies, other nodes and faults";
    b.advice = "use larger batches, or a mode that exchanges less often";
  } else if (b.what == sim_bottleneck::kind::link) {
    for (std::uint32_t n = 0; n < s_.job->plan.nodes.size(); ++n)
      if (b.name == w.wires().name_of(2 * n) || b.name == w.wires().name_of(2 * n + 1)) b.advice = exchange_advice(n);
  }
  return b;
}

}  // namespace troupe
