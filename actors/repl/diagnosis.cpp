#include "actors/repl/diagnosis.hpp"

#include <algorithm>

#include "actors/repl/request.hpp"
#include "actors/repl/tables.hpp"

namespace troupe {
namespace {

constexpr double at_least = 2;        // seconds; states are published at different times
constexpr double unknown_limit = 10;  // seconds
constexpr double usual_steps = 20;

// The nodes that a job without roles may wait for.
std::string needed_nodes_text(const repl_view& v) {
  std::string text;
  for (const auto& n : v.nodes)
    if (n.state == "absent" || n.state == "lost" || n.state == "hung") text += "; " + n.name + " is " + n.state;
  return text;
}

}  // namespace

double stuck_after(std::optional<double> usual_step) {
  return usual_step ? std::max(at_least, usual_steps * *usual_step) : unknown_limit;
}

bool diagnosis::stuck() const {
  return std::any_of(causes.begin(), causes.end(), [](const cause& c) { return c.stuck; }) ||
         std::any_of(silent.begin(), silent.end(), [](const silent_node& n) { return n.needed; });
}

diagnosis diagnose(const repl_view& v, std::optional<double> usual_step) {
  diagnosis d;
  d.usual_step = usual_step;
  d.roles = v.roles.size();
  for (auto& r : wait_roots(v)) {
    using enum wait_root::kind;
    const bool stuck = r.what == failed || r.what == silent || (r.what != user && r.seconds > stuck_after(usual_step));
    d.causes.push_back({std::move(r), stuck});
  }
  std::stable_sort(d.causes.begin(), d.causes.end(), [](const auto& a, const auto& b) { return a.stuck > b.stuck; });
  for (const auto& n : v.nodes) {
    if (n.state != "silent") continue;
    const bool has_roles = std::any_of(v.roles.begin(), v.roles.end(), [&](const auto& r) { return r.node == n.name; });
    d.silent.push_back({n.name, n.note, has_roles || n.name == v.coordinator});
  }
  return d;
}

std::string diagnosis_text(const repl_view& v, const diagnosis& d) {
  std::string text;
  for (const auto& n : d.silent)
    text += (n.needed ? "stuck: node " : "node ") + n.name + " does not answer" + (n.needed ? "" : "; no running job uses it") +
            ": " + n.why + "\n";
  for (const auto& c : d.causes)
    if (c.stuck) text += "stuck: " + wait_root_text(v, c.root) + "\n";
  const auto* j = d.roles == 0 ? active_job(v) : nullptr;
  if (j) return text + repl_named(j->id) + " is " + text_of(j->state) + ": it has no roles" + needed_nodes_text(v);
  if (d.roles == 0) return text + "no job runs" + waiting_jobs_text(v);
  if (!d.stuck()) text += "not stuck; ";
  text += d.usual_step ? "a step usually takes " + repl_duration(*d.usual_step) + ", a wait of more than "
                       : "the time of a step is not known yet, a wait of more than ";
  text += repl_duration(stuck_after(d.usual_step)) + " counts as stuck";
  for (const auto& c : d.causes)
    if (!c.stuck) text += "\n" + wait_root_text(v, c.root);
  return text;
}

nlohmann::ordered_json diagnosis_object(const repl_view& v, const diagnosis& d) {
  nlohmann::ordered_json o{{"command", "diagnose"}, {"stuck", d.stuck()}, {"stuck_after_seconds", stuck_after(d.usual_step)}};
  if (d.usual_step) o["usual_step_seconds"] = *d.usual_step;
  o["roles"] = d.roles;
  if (const auto* j = active_job(v); j && d.roles == 0) o["job"] = j->id, o["state"] = text_of(j->state);
  o["silent"] = nlohmann::ordered_json::array();
  for (const auto& n : d.silent) o["silent"].push_back({{"node", n.name}, {"text", n.why}, {"needed", n.needed}});
  o["roots"] = nlohmann::ordered_json::array();
  for (const auto& c : d.causes) {
    auto root = wait_root_object(v, c.root);
    root["stuck"] = c.stuck;
    o["roots"].push_back(std::move(root));
  }
  return o;
}

}  // namespace troupe
