// `troupe plan JOB [--cluster FILE]`: who would live where, which tensors would travel, what that costs. Nothing is started.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "apps/troupe_commands.hpp"
#include "runtime/node/cluster_file.hpp"

namespace troupe {
namespace {

using json = nlohmann::ordered_json;

std::string layers_text(const prepared_job& j, const role_plan& r) {
  std::string s;
  for (auto l : r.layers) s += (s.empty() ? "" : " ") + j.graph.layers[l].name;
  return s;
}

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
  const auto type = e.what.layer == from_data && e.what.output == 1 ? dtype::i32 : j.spec.type();
  return static_cast<double>(static_cast<std::size_t>(tensor_shape(j, e.what).count()) * size_of(type));
}

json placement(const prepared_job& j) {
  auto list = json::array();
  for (const auto& r : j.plan.roles) {
    json o{{"role", r.name}, {"kind", name_of(r.kind)}, {"node", j.plan.nodes[r.node].name}};
    if (!r.layers.empty()) {
      o["layers"] = json::array();
      for (auto l : r.layers) o["layers"].push_back(j.graph.layers[l].name);
    }
    if (r.kind == role_kind::worker) o["packets"] = {j.plan.ranges[r.worker].first, j.plan.ranges[r.worker].count};
    list.push_back(std::move(o));
  }
  return list;
}

// From whom worker w's loader gets its examples; no_role: from its own source.
role_id loaders_source(const prepared_job& j, std::uint32_t w) {
  if (j.spec.data.how == delivery::broadcast && w > 0) return j.plan.loaders[w & (w - 1)];
  return j.plan.data_server;
}

// What loaders get from elsewhere, activations by edge, and the blocks of parameters that each shard exchanges with every worker.
json routes(const prepared_job& j) {
  auto list = json::array();
  for (const auto& e : j.plan.edges)
    list.push_back({{"from", j.plan[e.from].name},
                    {"to", j.plan[e.to].name},
                    {"tensor", tensor_name(j, e.what)},
                    {"shape", tensor_shape(j, e.what).to_string()},
                    {"bytes_per_packet", edge_bytes(j, e)},
                    {"gradient_back", e.grad_back}});
  for (std::uint32_t w = 0; w < j.plan.loaders.size(); ++w) {
    const auto from = loaders_source(j, w);
    if (from == no_role) continue;
    const double bytes = edge_bytes(j, {.what = {from_data, 0}}) + edge_bytes(j, {.what = {from_data, 1}});
    list.push_back({{"from", j.plan[from].name},
                    {"to", j.plan[j.plan.loaders[w]].name},
                    {"tensor", j.spec.data.how == delivery::seeds ? "seed" : "examples"},
                    {"bytes_per_packet", j.spec.data.how == delivery::seeds ? 8.0 : bytes}});
  }
  for (const auto& b : j.plan.blocks)
    list.push_back({{"from", "workers"},
                    {"to", j.plan[b.shard].name},
                    {"parameter", j.graph.params[b.param].full_name},
                    {"begin", b.begin},
                    {"count", b.count}});
  return list;
}

std::string role_table(const prepared_job& j) {
  std::size_t wide = 4;
  for (const auto& r : j.plan.roles) wide = std::max(wide, r.name.size());
  std::string s = left("role", wide + 2) + left("kind", 13) + left("node", 10) + "holds\n";
  for (const auto& r : j.plan.roles) {
    std::string holds = layers_text(j, r);
    if (r.kind == role_kind::worker) {
      const auto& p = j.plan.ranges[r.worker];
      holds = "packets " + std::to_string(p.first) + " to " + std::to_string(p.first + p.count - 1);
    }
    if (r.kind == role_kind::shard) {
      std::int64_t n = 0;
      for (const auto& b : j.plan.blocks) n += b.shard == r.id ? b.count : 0;
      holds = with_commas(static_cast<std::uint64_t>(n)) + " parameters";
    }
    if (r.kind == role_kind::data_server)
      holds = j.spec.data.how == delivery::seeds ? "seeds for the loaders" : "examples for the loaders";
    s += left(r.name, wide + 2) + left(name_of(r.kind), 13) +
         (holds.empty() ? j.plan.nodes[r.node].name : left(j.plan.nodes[r.node].name, 10) + holds) + "\n";
  }
  return s;
}

std::string edge_table(const prepared_job& j) {
  std::size_t from = 4, to = 2, tensor = 6;
  for (const auto& e : j.plan.edges) {
    from = std::max(from, j.plan[e.from].name.size());
    to = std::max(to, j.plan[e.to].name.size());
    tensor = std::max(tensor, tensor_name(j, e.what).size());
  }
  std::string s = "\n" + left("from", from + 2) + left("to", to + 2) + left("tensor", tensor + 2) + left("shape of a packet", 20) +
                  right("bytes", 12) + "  gradient\n";
  for (const auto& e : j.plan.edges)
    s += left(j.plan[e.from].name, from + 2) + left(j.plan[e.to].name, to + 2) + left(tensor_name(j, e.what), tensor + 2) +
         left(tensor_shape(j, e.what).to_string(), 20) + right(with_commas(static_cast<std::uint64_t>(edge_bytes(j, e))), 12) +
         (e.grad_back ? "  comes back\n" : "\n");
  return s;
}

}  // namespace

int run_plan(const plan_arguments& a, const output& out) {
  std::vector<node_spec> nodes;
  if (!a.cluster.empty()) {
    auto read = read_cluster_file(a.cluster);
    if (auto* bad = std::get_if<diagnostics>(&read)) return out.wrong(*bad);
    nodes = std::get<cluster_spec>(read).nodes;
  }
  auto loaded = load_job(a, nodes);
  if (auto* bad = std::get_if<diagnostics>(&loaded)) return out.wrong(*bad);
  const auto& j = *std::get<std::shared_ptr<prepared_job>>(loaded);
  const auto costs = cost_of(j.plan, j.graph, j.spec);
  if (out.json()) {
    out.object({{"event", "plan"},
                {"placement", placement(j)},
                {"routes", routes(j)},
                {"bytes_per_step", costs.bytes_per_step},
                {"memory", costs.memory}});
    return exit_done;
  }
  std::string s = job_summary(j) + "\n" + role_table(j) + edge_table(j);
  s += "\n" + left("node", 16) + right("sends a step", 14) + right("holds about", 14) + "\n";
  for (const auto& n : j.plan.nodes) {
    const auto value = [&](const std::map<std::string, double>& m) { return m.count(n.name) ? m.at(n.name) : 0.0; };
    s += left(n.name, 16) + right(bytes_text(value(costs.bytes_per_step)), 14) + right(bytes_text(value(costs.memory)), 14) + "\n";
  }
  out.text(s);
  return exit_done;
}

}  // namespace troupe
