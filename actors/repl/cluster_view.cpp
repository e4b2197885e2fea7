#include "actors/repl/cluster_view.hpp"

#include <algorithm>
#include <chrono>
#include <map>

#include "actors/control/client/cluster_records.hpp"
#include "runtime/cluster/admission.hpp"
#include "runtime/cluster/role_entries.hpp"
#include "runtime/cluster/view/about.hpp"
#include "runtime/trace/usual_step.hpp"

namespace troupe {
namespace {

using namespace std::chrono_literals;
constexpr auto patience = 3s;

repl_job job_of(const control::plan_entry& p) {
  repl_job j;
  j.id = control::number_of(p.job);
  j.name = p.name;
  j.state = job_state::running;
  auto about = std::make_shared<repl_about>();
  for (const auto& l : p.layers) {
    repl_layer layer;
    layer.name = l.name;
    layer.inputs = l.inputs;
    layer.in_train = l.in_train;
    about->layers.push_back(std::move(layer));
  }
  j.about = std::move(about);
  return j;
}

// Adds the roles of silent nodes that the plan has there.
void add_unknown(repl_view& v, const control::plan_entry& p) {
  for (std::uint32_t i = 0; i < p.roles.size(); ++i) {
    const auto& [name, node] = p.roles[i];
    const bool silent =
        std::any_of(v.nodes.begin(), v.nodes.end(), [&](const auto& n) { return n.name == node && n.state == "silent"; });
    if (!silent) continue;
    repl_role r;
    r.node = node;
    r.what.job = p.job;
    r.what.id = role_id{i};
    r.what.name = name;
    v.roles.push_back(std::move(r));
  }
}

}  // namespace

cluster_look look_at_cluster(node_links& nodes, const std::string& cluster, const std::string& coordinator) {
  cluster_look found;
  auto& v = found.view;
  v.cluster = cluster;
  v.coordinator = coordinator;
  const auto answers = nodes.ask_all([](const auto&) { return control::look{.state = true}; }, patience);
  std::map<std::uint32_t, control::plan_entry> plans;  // by job
  for (std::size_t i = 0; i < answers.size(); ++i) {
    const auto& at = nodes.nodes()[i];
    repl_node n;
    n.name = at.where.node;
    n.address = at.where.address;
    n.state = answers[i] ? "up" : "silent";
    n.note = at.trouble;
    n.unheard_seconds = answers[i] ? 0 : std::chrono::duration<double>(patience).count();
    v.nodes.push_back(std::move(n));
    if (!answers[i]) continue;
    for (const auto& r : answers[i]->state.roles) v.roles.push_back({at.where.node, control::published_in(r)});
    for (const auto& p : answers[i]->plans) plans.emplace(p.job, p);
  }
  cluster_records records(nodes, std::chrono::steady_clock::now());
  if (!plans.empty()) records.read(nullptr);
  for (const auto& [job, p] : plans) {
    v.jobs.push_back(job_of(p));
    add_unknown(v, p);
    for (const auto& n : v.nodes)
      if (!found.usual_step) found.usual_step = usual_step(records.latest(n.name), job);
  }
  return found;
}

}  // namespace troupe
