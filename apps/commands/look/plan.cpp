// `troupe plan JOB [--cluster FILE]`: prints a job's model, placement, routes, traffic and memory.
// Does not start anything.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <nlohmann/json.hpp>

#include "apps/cli/command.hpp"
#include "apps/commands/look/plan.hpp"
#include "apps/commands/machine.hpp"
#include "runtime/base/wording.hpp"
#include "runtime/cost/plan_memory.hpp"
#include "runtime/job/memory_budget.hpp"
#include "runtime/node/config/cluster_file.hpp"

namespace troupe {
namespace {

using json = nlohmann::ordered_json;

std::string tensor_name(const prepared_job& j, tensor_ref t) {
  if (t.layer == from_data) return t.output == 0 ? "data" : "label";
  const auto& l = j.graph.layers[static_cast<std::size_t>(t.layer)];
  return t.output == 0 ? l.name : l.name + "." + std::to_string(t.output);
}

shape tensor_shape(const prepared_job& j, tensor_ref t) {
  if (t.layer == from_data) return t.output == 0 ? j.graph.data : j.graph.label;
  return j.graph.layers[static_cast<std::size_t>(t.layer)].out[t.output];
}

double edge_bytes(const prepared_job& j, const plan_edge& e) {
  const auto type = j.graph.type_of(e.what, j.spec.type());
  return static_cast<double>(wire_bytes(e.wire, cut(tensor_shape(j, e.what), e.region), type));
}

// How many steps a stage's weights may lag behind its packets (plan/warm_up.hpp), and how many
// versions of the weights it holds for that.
struct stage_delay {
  std::uint32_t steps = 0, versions = 1;
};
stage_delay delay_of(const prepared_job& j, const role_plan& stage) {
  stage_delay d;
  for (auto l : stage.layers) d.steps = std::max(d.steps, j.plan.delay_of(l));
  if (j.plan.rule == weight_rule::stash) d.versions = d.steps + 1;
  return d;
}
bool lags(const prepared_job& j, const role_plan& r) { return j.plan.rule != weight_rule::drain && r.trains(); }

json placement(const prepared_job& j) {
  auto list = json::array();
  for (const auto& r : j.plan.roles) {
    json o{{"role", r.name}, {"kind", name_of(r.kind)}, {"node", j.plan.nodes[r.node].name}};
    if (j.plan.place_of(r) != j.plan.nodes[r.node].name) o["device"] = j.plan.nodes[r.node].devices[r.device];
    if (!r.layers.empty()) {
      o["layers"] = json::array();
      for (auto l : r.layers) o["layers"].push_back(j.graph.layers[l].name);
      if (j.plan.placed && r.trains()) o["packets"] = {r.packets.first, r.packets.count};
      if (const auto* part = r.parts[0].get()) {
        const auto cut = part->inputs.whole() ? part->features : part->inputs;
        o[part->inputs.whole() ? "features" : "input_features"] = {cut.begin, cut.end};
      }
    }
    if (lags(j, r)) {
      const auto d = delay_of(j, r);
      o["delay"] = d.steps, o["in_flight"] = r.train_slots, o["versions"] = d.versions;
    }
    add_role_fields(o, j, r);
    list.push_back(std::move(o));
  }
  return list;
}

// The roles that exchange parameters with server group `g`, as text.
std::string workers_text(const prepared_job& j, std::uint32_t g) {
  std::string roots;
  for (auto r : j.plan.reducers)
    if (j.plan[r].above == no_role) roots += (roots.empty() ? "" : ", ") + j.plan[r].name;
  if (!roots.empty()) return roots;
  if (j.plan.server_groups == 1) return "workers";
  const auto& w = j.plan.groups[g];
  const auto first = j.plan[j.plan.workers[w.first]].name;
  return w.count == 1 ? first : first + " to " + j.plan[j.plan.workers[w.first + w.count - 1]].name;
}

// Routes of parameter blocks: between workers and shards, up the tree of reducers, between server
// groups, and to the tester.
void add_parameter_routes(const prepared_job& j, json& list) {
  const auto add = [&](const std::string& from, const std::string& to, const param_block& b) {
    json o{{"from", from}, {"to", to}, {"parameter", j.graph.params[b.param].full_name}, {"begin", b.begin}, {"count", b.count}};
    if (b.run > 0) o["run"] = b.run, o["stride"] = b.stride;
    list.push_back(std::move(o));
  };
  const auto& p = j.plan;
  for (std::uint32_t g = 0; g < p.server_groups; ++g)
    for (const auto& b : p.blocks) add(workers_text(j, g), p[p.shard_of(b, g)].name, b);
  for (auto r : p.reducers)
    if (const auto up = p[r].above; up != no_role)
      for (const auto& b : p.blocks) add(p[r].name, p[p.above(r, b)].name, b);
  for (std::uint32_t g = 1; g < p.server_groups; ++g)
    for (const auto& b : p.blocks) add(p[p.shard_of(b, g)].name, p[b.shard].name, b);
  if (p.tester != no_role)
    for (const auto& b : p.blocks) add(p[b.shard].name, p[p.tester].name, b);
}

// All routes: activations by edge, examples or seeds that loaders receive from other roles, and
// parameter blocks.
json routes(const prepared_job& j) {
  auto list = json::array();
  for (const auto& e : j.plan.edges) {
    json o{{"from", j.plan[e.from].name},          {"to", j.plan[e.to].name},
           {"tensor", tensor_name(j, e.what)},     {"shape", cut(tensor_shape(j, e.what), e.region).to_string()},
           {"bytes_per_packet", edge_bytes(j, e)}, {"gradient_back", e.grad_back}};
    if (!e.region.whole()) o["features"] = {e.region.begin, e.region.end};
    if (e.addend) o["addend"] = true;
    if (e.wire != wire_format::as_is) o["wire"] = name_of(e.wire);
    if (j.plan.placed && !j.plan[e.to].tester) o["packets"] = {e.packets.first, e.packets.count};
    list.push_back(std::move(o));
  }
  for (std::uint32_t w = 0; w < j.plan.loaders.size(); ++w) {
    const auto from = j.plan.examples_from(j.spec.data.how, w);
    if (from == no_role) continue;
    const double bytes = edge_bytes(j, {.what = {from_data, 0}}) + edge_bytes(j, {.what = {from_data, 1}});
    list.push_back({{"from", j.plan[from].name},
                    {"to", j.plan[j.plan.loaders[w]].name},
                    {"tensor", j.spec.data.how == delivery::seeds ? "seed" : "examples"},
                    {"bytes_per_packet", j.spec.data.how == delivery::seeds ? 8.0 : bytes}});
  }
  add_parameter_routes(j, list);
  return list;
}

std::string count_text(std::size_t n, const char* what) { return std::to_string(n) + " " + what + (n == 1 ? "" : "s"); }

std::string topology_text(const prepared_job& j) {
  const auto& p = j.plan;
  std::string s = "mode " + j.spec.train.sync.kind;
  for (const auto& [key, value] : options_to_text(j.spec.train.sync.values)) s += " " + key + "=" + value;
  s += ": " + count_text(p.groups.size(), "worker group") + " of " + std::to_string(p.groups[0].count) + ", " +
       count_text(p.server_groups, "server group") + " of " + std::to_string(p.servers_per_group);
  if (j.spec.train.reducer != "server") {
    s += ", reducer " + j.spec.train.reducer;
    for (const auto& [key, value] : options_to_text(j.spec.train.reducer_values)) s += " " + key + "=" + value;
  }
  return s + "\n";
}

std::string role_table(const prepared_job& j) {
  std::size_t wide = 4, node = 4;
  for (const auto& r : j.plan.roles) {
    wide = std::max(wide, r.name.size());
    node = std::max(node, j.plan.place_of(r).size());
  }
  std::string s = left("role", wide + 2) + left("kind", 13) + left("node", node + 2) + "holds\n";
  for (const auto& r : j.plan.roles) {
    const auto holds = role_text(j, r);
    const auto name = j.plan.place_of(r);
    s += left(r.name, wide + 2) + left(name_of(r.kind), 13) + (holds.empty() ? name : left(name, node + 2) + holds) + "\n";
  }
  return s;
}

// Table of weight delays, for weights = "stash" and "latest".
std::string delay_table(const prepared_job& j) {
  std::size_t wide = 5;
  for (const auto& r : j.plan.roles)
    if (lags(j, r)) wide = std::max(wide, r.name.size());
  std::string s = "\n" + left("stage", wide + 2) + flush_right("steps behind", 14) + flush_right("packets at once", 17) +
                  flush_right("versions", 10) + "\n";
  for (const auto& r : j.plan.roles) {
    if (!lags(j, r)) continue;
    const auto d = delay_of(j, r);
    s += left(r.name, wide + 2) + flush_right(std::to_string(d.steps), 14) + flush_right(std::to_string(r.train_slots), 17) +
         flush_right(std::to_string(d.versions), 10) + "\n";
  }
  return s + "weights = \"" + j.spec.pipeline.weights + "\": a packet of step t uses the weights of step t - (steps behind)" +
         (j.plan.rule == weight_rule::latest ? " or newer; forward and backward each use the newest"
                                             : ", in both forward and backward") +
         ".\n";
}

std::string range_text(std::int64_t first, std::int64_t end) {
  return end - first == 1 ? std::to_string(first) : std::to_string(first) + " to " + std::to_string(end - 1);
}

// Table of edges. If layers are placed, it also has the packets and features that use each edge.
std::string edge_table(const prepared_job& j) {
  const auto packets = [](const plan_edge& e) {
    return e.packets.count == ~0u ? std::string("any")
                                  : range_text(e.packets.first, std::int64_t{e.packets.first} + e.packets.count);
  };
  const auto features = [](const plan_edge& e) {
    return e.region.whole() ? std::string("all") : range_text(e.region.begin, e.region.end);
  };
  const auto notes = [](const plan_edge& e) {
    std::string s = e.grad_back ? "returned" : "";
    if (e.addend) s += s.empty() ? "addend" : ", addend";
    if (e.wire != wire_format::as_is) s += std::string(s.empty() ? "" : ", ") + name_of(e.wire);
    return s.empty() ? s : "  " + s;
  };
  std::size_t from = 4, to = 2, tensor = 6, some = 7, part = 8;
  for (const auto& e : j.plan.edges) {
    from = std::max(from, j.plan[e.from].name.size());
    to = std::max(to, j.plan[e.to].name.size());
    tensor = std::max(tensor, tensor_name(j, e.what).size());
    some = std::max(some, packets(e).size());
    part = std::max(part, features(e).size());
  }
  const auto where = [&](const std::string& p, const std::string& f) {
    return j.plan.placed ? left(p, some + 2) + left(f, part + 2) : std::string();
  };
  std::string s = "\n" + left("from", from + 2) + left("to", to + 2) + left("tensor", tensor + 2) + where("packets", "features") +
                  left("shape of a packet", 20) + flush_right("bytes", 12) + "  gradient\n";
  for (const auto& e : j.plan.edges)
    s += left(j.plan[e.from].name, from + 2) + left(j.plan[e.to].name, to + 2) + left(tensor_name(j, e.what), tensor + 2) +
         where(packets(e), features(e)) + left(cut(tensor_shape(j, e.what), e.region).to_string(), 20) +
         flush_right(with_commas(static_cast<std::uint64_t>(edge_bytes(j, e))), 12) + notes(e) + "\n";
  return s;
}

// Tables of the bytes between each pair of nodes, and of the bytes that each node sends, receives
// and holds.
std::string tables_of_nodes(const prepared_job& j, const plan_costs& costs) {
  std::size_t wide = 4;
  for (const auto& n : j.plan.nodes) wide = std::max(wide, n.name.size());
  std::string s;
  if (!costs.links.empty()) s += "\n" + left("link", 2 * wide + 6) + flush_right("bytes/step", 14) + "\n";
  for (const auto& [way, bytes] : costs.links)
    s += left(left(j.plan.nodes[way.first].name, wide) + " to " + j.plan.nodes[way.second].name, 2 * wide + 6) +
         flush_right(with_commas(static_cast<std::uint64_t>(bytes)), 14) + "\n";
  s += "\n" + left("node", wide + 2) + flush_right("sent/step", 14) + flush_right("received/step", 14) + flush_right("memory", 14) +
       "\n";
  for (const auto& n : j.plan.nodes)
    s += left(n.name, wide + 2) + flush_right(bytes_text(costs.bytes_per_step.at(n.name)), 14) +
         flush_right(bytes_text(costs.received.at(n.name)), 14) + flush_right(bytes_text(costs.memory.at(n.name)), 14) + "\n";
  return s;
}

// Peak memory of each role and each node.
std::string memory_table(const prepared_job& j, const plan_memory& m) {
  std::size_t wide = 4;
  for (const auto& r : j.plan.roles) wide = std::max(wide, r.name.size());
  for (const auto& n : j.plan.nodes) wide = std::max(wide, n.name.size());
  const auto entry = [&](const std::string& name, const role_memory& x) {
    const auto cell = [](double bytes) { return flush_right(bytes > 0 ? bytes_text(bytes) : "-", 12); };
    return left(name, wide + 2) + cell(x.parameters) + cell(x.gradients) + cell(x.states) + flush_right("", 2) +
           cell(x.activations) + cell(x.workspace) + cell(x.total()) + "\n";
  };
  std::string s = "\n" + left("memory", wide + 2) + flush_right("parameters", 12) + flush_right("gradients", 12) +
                  flush_right("states", 12) + "  " + flush_right("activations", 12) + flush_right("workspace", 12) +
                  flush_right("total", 12) + "\n";
  for (const auto& r : j.plan.roles)
    if (const auto& x = m.roles[index_of(r.id)]; x.total() > 0) s += entry(r.name, x);
  for (std::size_t n = 0; n < m.nodes.size(); ++n) s += entry(j.plan.nodes[n].name, m.nodes[n]);
  return s;
}

json memory_json(const prepared_job& j, const plan_memory& m) {
  const auto of = [](const std::string& name, const role_memory& x) {
    return json{{"name", name},       {"parameters", x.parameters},   {"gradients", x.gradients},
                {"states", x.states}, {"activations", x.activations}, {"workspace", x.workspace},
                {"total", x.total()}};
  };
  json o{{"roles", json::array()}, {"nodes", json::array()}};
  for (const auto& r : j.plan.roles)
    if (const auto& x = m.roles[index_of(r.id)]; x.total() > 0) o["roles"].push_back(of(r.name, x));
  for (std::size_t n = 0; n < m.nodes.size(); ++n) o["nodes"].push_back(of(j.plan.nodes[n].name, m.nodes[n]));
  return o;
}

json links_of(const prepared_job& j, const plan_costs& costs) {
  auto list = json::array();
  for (const auto& [way, bytes] : costs.links)
    list.push_back({{"from", j.plan.nodes[way.first].name}, {"to", j.plan.nodes[way.second].name}, {"bytes_per_step", bytes}});
  return list;
}

// Sets the rates by the file `a.machine`.
expected<void, diagnostics> take_machine(plan_arguments& a) {
  const auto rates = read_machine(a.machine);
  if (!rates) return unexpected(rates.error());
  if (rates->exchange) {
    a.exchange = *rates->exchange;
    a.gigabits = a.exchange.bytes_per_second * 8 / 1e9;
  }
  if (rates->teraflops > 0) a.teraflops = rates->teraflops;
  return {};
}

std::string reducers_text(const plan_arguments& a, const prepared_job& j) {
  const auto list = seconds_of_reducers(a.exchange, j);
  if (list.empty()) return {};
  std::string s = "\nexchange of a step, at the rates of " + a.machine + ": ";
  for (const auto& [name, seconds] : list)
    s += (&name == &list.front().first ? "" : ", ") + name + " " + fixed(1e3 * seconds, 2) + " ms";
  const auto& best = list.front().first;
  return s + (best == j.spec.train.reducer ? "\n" : "\nset train.exchange.reducer = \"" + best + "\"\n");
}

int run_plan(const plan_arguments& given, const output& out) {
  auto a = given;
  if (!a.machine.empty())
    if (const auto read = take_machine(a); !read) return out.wrong(read.error());
  std::vector<node_spec> nodes;
  if (!a.cluster.empty()) {
    auto read = read_cluster_file(a.cluster);
    if (!read) return out.wrong(read.error());
    nodes = read->nodes;
  }
  auto loaded = load_job(a, nodes);
  if (!loaded) return out.wrong(loaded.error());
  const auto& j = **loaded;
  if (a.suggest) return run_suggest(a, j, std::move(nodes), out);
  auto costs = cost_of(j.plan, j.graph, j.spec);
  const auto memory = memory_of(j);  // includes the data set, which cost_of() does not know
  for (std::size_t n = 0; n < memory.nodes.size(); ++n) costs.memory[j.plan.nodes[n].name] = memory.nodes[n].total();
  if (out.json()) {
    json o{{"event", "plan"},
           {"mode", j.spec.train.sync.kind},
           {"reducer", j.spec.train.reducer},
           {"parameters", j.graph.parameter_count},
           {"placement", placement(j)},
           {"routes", routes(j)},
           {"links", links_of(j, costs)},
           {"bytes_per_step", costs.bytes_per_step},
           {"bytes_received_per_step", costs.received},
           {"memory", costs.memory},
           {"peak", memory_json(j, memory)}};
    if (!a.machine.empty())
      for (const auto& [name, seconds] : seconds_of_reducers(a.exchange, j)) o["exchange_seconds"][name] = seconds;
    out.object(o);
    return exit_done;
  }
  out.text(job_summary(j) + topology_text(j) + "\n" + model_table(j) + "\n" + role_table(j) +
           (j.plan.rule == weight_rule::drain ? "" : delay_table(j)) + (a.routes ? edge_table(j) : std::string()) +
           tables_of_nodes(j, costs) + (a.machine.empty() ? std::string() : reducers_text(a, j)) + memory_table(j, memory));
  return exit_done;
}

void add_options(CLI::App& c, plan_arguments& a) {
  job_options(c, a);
  file_option(c, "--cluster", a.cluster, "Place the job on the nodes of this cluster file");
  c.add_flag("--routes", a.routes, "Also list the tensors that roles send each other for a packet, with shapes and bytes");
  c.add_flag("--suggest", a.suggest, "Search for a placement of layers with cheaper steps, and print the keys to set");
  file_option(c, "--machine", a.machine,
              "Use measured rates: a file of `troupe doctor --out`, with [network] and [compute] as for\n`troupe sim --network`");
  c.add_option("--gbit", a.gigabits, "With --suggest: Gbit/s of a node's link in each direction (default: 10)")
      ->option_text("G")
      ->check(CLI::Range(1e-6, 1e6));
  c.add_option("--tflops", a.teraflops, "With --suggest: TFLOP/s of a node (default: 1)")
      ->option_text("T")
      ->check(CLI::Range(1e-6, 1e6));
}

}  // namespace

cli_command plan_command() {
  return make_command<plan_arguments>(
      "plan", "Show a job's model, placement, routes, weight delays, bytes per step and memory",
      "  troupe plan job.toml\n"
      "  troupe plan job.toml --routes\n"
      "  troupe plan job.toml --cluster configs/clusters/local2.toml --set topology.workers_per_group=2\n"
      "  troupe plan job.toml --cluster lab.toml --set layer.fc7.partition=input --set layer.fc6.wire=bf16\n"
      "  troupe plan configs/jobs/alexnet.toml --suggest --set topology.workers_per_group=4 --set pipeline.packets=4\n"
      "  troupe plan job.toml --cluster lab.toml --machine lab_machine.toml --suggest",
      add_options, run_plan);
}

}  // namespace troupe
