// The output of `waits`: the roots, then one line for each role that waits or computes for long.
#include "actors/repl/tables.hpp"
#include "actors/repl/text.hpp"
#include "actors/repl/waits.hpp"
#include "runtime/base/text_table.hpp"
#include "runtime/cluster/supervision/task_watch.hpp"

namespace troupe {

using namespace repl_text;

namespace {

constexpr std::size_t max_roots_shown = 5;

std::string role_text(const repl_view& v, std::size_t i) {
  const auto& r = v.roles[i];
  return r.what.name + (v.nodes.size() > 1 ? " on " + r.node : "");
}

std::string wait_text(const repl_view& v, std::size_t i) {
  const auto& r = v.roles[i].what;
  if (r.status.waits_for.empty()) return role_text(v, i) + " waits for its stages";
  return role_text(v, i) + " waits for " + r.status.waits_for + " (" + repl_duration(r.age_seconds) + ")";
}

}  // namespace

std::string wait_root_text(const repl_view& v, const wait_root& r) {
  auto text = "root: " + role_text(v, r.role) + " " + r.text;
  if (r.what == wait_root::kind::connection)
    text = "root: the connection between " + r.nodes[0] + " and " + r.nodes[1] + ": " + role_text(v, r.role) + " " + r.text;
  if (r.what == wait_root::kind::silent) text = "root: node " + r.nodes[0] + " " + r.text;
  const auto n = r.held_up.size();
  text += "; " + number(n) + (n == 1 ? " role waits" : " roles wait") + " for it\n  ";
  for (std::size_t k = 0; k + 1 < r.chain.size(); ++k) text += wait_text(v, r.chain[k]) + " <- ";
  return text + role_text(v, r.role);
}

nlohmann::ordered_json wait_root_object(const repl_view& v, const wait_root& r) {
  static constexpr const char* kinds[] = {"failed", "silent", "user", "task", "idle", "connection"};
  json_object o{{"node", v.roles[r.role].node}, {"name", v.roles[r.role].what.name}};
  o["cause"] = kinds[static_cast<std::size_t>(r.what)];
  o["text"] = r.text;
  o["seconds"] = r.seconds;
  if (!r.nodes.empty()) o["nodes"] = r.nodes;
  o["held_up"] = r.held_up.size();
  o["chain"] = json_object::array();
  for (const auto i : r.chain)
    o["chain"].push_back({{"node", v.roles[i].node},
                          {"name", v.roles[i].what.name},
                          {"waits_for", v.roles[i].what.status.waits_for},
                          {"seconds", v.roles[i].what.age_seconds}});
  return o;
}

namespace {

// Nodes that the others cannot reach, from the coordinator's daemon.
std::string nodes_text(const repl_view& v) {
  std::string text;
  for (const auto& n : v.nodes) {
    if (n.state != "up" && n.state != "absent")
      text += "root: node " + n.name + " is " + n.state + " (" + repl_duration(n.seconds) + ")\n";
    if (!n.note.empty()) text += "root: node " + n.name + ": " + n.note + "\n";
  }
  return text;
}

}  // namespace

std::string repl_waits_text(bool json, const repl_view& v) {
  const auto roots = wait_roots(v);
  auto list = json_object::array();
  text_table t({"node", "role", "waits for", "s"});
  for (const auto& r : v.roles) {
    const bool long_one = r.what.task.seconds >= 1;
    if (r.what.status.waits_for.empty() && !long_one) continue;
    json_object o{{"node", r.node}, {"name", r.what.name}, {"waits_for", r.what.status.waits_for}};
    o["seconds"] = r.what.age_seconds;
    if (long_one) o["computes"] = task_text(r.what.task);
    list.push_back(std::move(o));
    t.add({r.node, r.what.name, long_one ? task_text(r.what.task) : r.what.status.waits_for, fixed_text(r.what.age_seconds, 1)});
  }
  if (json) {
    auto causes = json_object::array();
    for (const auto& r : roots) causes.push_back(wait_root_object(v, r));
    return line_of({{"command", "waits"}, {"roots", causes}, {"waits", list}});
  }
  auto text = nodes_text(v);
  for (std::size_t i = 0; i < std::min(roots.size(), max_roots_shown); ++i) text += wait_root_text(v, roots[i]) + "\n";
  if (roots.size() > max_roots_shown) text += number(roots.size() - max_roots_shown) + " more roots\n";
  return text + (text.empty() ? "" : "\n") + t.text();
}

}  // namespace troupe
