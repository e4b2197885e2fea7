// `troupe plan JOB --suggest`: searches for a cheaper placement of layers, and prints its cost and
// the keys to set in the job file.
#include <nlohmann/json.hpp>

#include "apps/commands/look/plan.hpp"
#include "runtime/base/wording.hpp"
#include "runtime/cost/suggest.hpp"
#include "runtime/job/options_of_plan.hpp"

namespace troupe {
namespace {

using json = nlohmann::ordered_json;

json cost_of_step(const suggestion::cost& c) { return {{"seconds", c.seconds}, {"bytes", c.bytes}, {"flops", c.flops}}; }

std::string cost_text(const char* what, const suggestion::cost& c) {
  return left(what, 16) + flush_right(fixed(1000 * c.seconds, 1), 10) + " ms: " + bytes_text(c.bytes) +
         " through the busiest node's link, " + fixed(c.flops / 1e9, 1) + " GFLOP on the busiest node\n";
}

std::string keys_of(const suggestion::entry& r) {
  std::string s = "partition = \"" + r.partition + "\"";
  if (!r.place.empty()) s += ", place = \"" + r.place + "\"";
  return s;
}

}  // namespace

int run_suggest(const plan_arguments& a, const prepared_job& j, std::vector<node_spec> nodes, const output& out) {
  // Without a cluster file: one node for each worker, with the simulator's names.
  const auto workers = j.plan.ranges.size();
  for (std::size_t w = 0; a.cluster.empty() && w < workers; ++w) {
    node_spec n;
    n.name = "n" + std::to_string(w + 1);
    nodes.push_back(std::move(n));
  }
  auto spec = j.spec;
  if (a.cluster.empty() && spec.topology.colocated)
    spec.topology.servers_per_group = std::max<std::int64_t>(spec.topology.servers_per_group, static_cast<std::int64_t>(workers));
  auto graph = j.graph;
  for (auto& l : graph.layers)
    if (l.spec) l.spec = &spec.layers[static_cast<std::size_t>(l.spec - j.spec.layers.data())];
  const auto s = suggest_places(spec, graph, nodes, {a.gigabits * 1e9 / 8, a.teraflops * 1e12}, options_of_plan(j));
  if (out.json()) {
    auto list = json::array();
    for (const auto& r : s.entries) {
      json o{{"layer", graph.layers[r.layer].name},
             {"data_parallel_bytes", r.data_parallel},
             {"model_parallel_bytes", r.model_parallel},
             {"flops", r.flops},
             {"partition", r.partition}};
      if (!r.place.empty()) o["place"] = r.place;
      o["write"] = r.write;
      list.push_back(std::move(o));
    }
    out.object({{"event", "suggestion"},
                {"workers", workers},
                {"by_batch", cost_of_step(s.by_batch)},
                {"suggested", cost_of_step(s.suggested)},
                {"plans", s.plans},
                {"layers", list}});
    return exit_done;
  }
  std::size_t wide = 5;
  for (const auto& r : s.entries) wide = std::max(wide, graph.layers[r.layer].name.size());
  std::string text = job_summary(j) + "\nbytes that a worker moves per step, for each layer with parameters\n" +
                     left("layer", wide + 2) + flush_right("by batch", 14) + flush_right("otherwise", 14) +
                     flush_right("GFLOP", 10) + "  suggested\n";
  for (const auto& r : s.entries)
    text += left(graph.layers[r.layer].name, wide + 2) + flush_right(bytes_text(r.data_parallel), 14) +
            flush_right(bytes_text(r.model_parallel), 14) + flush_right(fixed(r.flops / 1e9, 1), 10) + "  " + r.partition +
            (r.place.empty() ? "" : " on " + r.place) + "\n";
  text += "\ntime per step, at " + fixed(a.gigabits, 1) + " Gbit/s and " + fixed(a.teraflops, a.teraflops < 1 ? 3 : 1) +
          " TFLOP/s per node, without overlap\n" + cost_text("all by batch", s.by_batch) + cost_text("as suggested", s.suggested);
  std::string keys;
  for (const auto& r : s.entries)
    if (r.write) keys += left(graph.layers[r.layer].name, wide + 2) + keys_of(r) + "\n";
  text += keys.empty() ? "\nno keys to set: all by batch is the cheapest of " + std::to_string(s.plans) + " plans\n"
                       : "\nset these keys in the layers (" + std::to_string(s.plans) + " plans compared)\n" + keys;
  out.text(text);
  return exit_done;
}

}  // namespace troupe
