#include "runtime/job/elastic.hpp"

#include <algorithm>
#include <string>

namespace troupe {
namespace {

bool offers(const node_spec& n) {
  return std::any_of(n.roles.begin(), n.roles.end(), [](const std::string& r) { return r != "coordinator"; });
}

std::int64_t offering(const std::vector<node_spec>& nodes) { return std::count_if(nodes.begin(), nodes.end(), offers); }

bool works(const node_spec& n) { return std::count(n.roles.begin(), n.roles.end(), "worker") > 0; }

// Returns the number of workers on `nodes` nodes if there are `all` on `most` nodes; rounded up, at
// least 1.
std::int64_t part(std::int64_t all, std::int64_t nodes, std::int64_t most) {
  return std::max<std::int64_t>(1, (all * nodes + most - 1) / most);
}

}  // namespace

void fix_nodes(job_spec& spec, const std::vector<node_spec>& nodes) {
  if (spec.nodes_fixed) return;
  spec.nodes_fixed = true;
  spec.elastic = spec.min_nodes > 0 || spec.max_nodes > 0;
  if (spec.max_nodes == 0) spec.max_nodes = std::max<std::int64_t>(1, offering(nodes) - spec.spares);
}

diagnostics fit_to_nodes(job_spec& spec, std::vector<node_spec>& nodes) {
  std::int64_t used = 0, workers = 0;
  for (auto& node : nodes) {
    if (!offers(node)) continue;
    if (++used > spec.max_nodes) {
      std::erase_if(node.roles, [](const std::string& r) { return r != "coordinator"; });
      --used;
      continue;
    }
    workers += works(node) ? 1 : 0;
  }
  if (used < spec.min_nodes)
    return {
        {spec.at, "min_nodes is " + std::to_string(spec.min_nodes) + ", but the job has only " + std::to_string(used) + " nodes"}};
  if (!spec.elastic || workers == 0) return {};
  auto& t = spec.topology;
  if (t.worker_groups > 1)
    t.worker_groups = part(t.worker_groups, workers, spec.max_nodes);
  else
    t.workers_per_group = part(t.workers_per_group, workers, spec.max_nodes);
  if (t.server_groups > 1) t.server_groups = t.worker_groups;
  return {};
}

}  // namespace troupe
