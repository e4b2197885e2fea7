#include "actors/repl/tables.hpp"

#include <cmath>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "actors/repl/text.hpp"
#include "runtime/base/text_table.hpp"
#include "runtime/base/wording.hpp"
#include "runtime/cluster/supervision/task_watch.hpp"
#include "runtime/cluster/view/job_progress.hpp"
#include "runtime/cluster/view/view.hpp"

namespace troupe {
namespace {

// --- GPUs
using namespace repl_text;

std::string device_of(const repl_gpu& g) { return "gpu:" + std::to_string(g.number); }
std::string bytes_of(const std::optional<std::uint64_t>& n) { return n ? bytes_text(static_cast<double>(*n)) : std::string(); }
std::string with_unit(const std::optional<double>& x, const char* unit) { return x ? fixed_text(*x, 0) + unit : std::string(); }

std::string memory_of(const repl_gpu& g) {
  const auto total = bytes_text(static_cast<double>(g.memory_total));
  return g.memory_used ? bytes_of(g.memory_used) + " of " + total : total;
}

json_object gpu_object(const repl_gpu& g) {
  json_object o{{"device", device_of(g)}, {"name", g.name}, {"memory_total", g.memory_total}};
  const auto add = [&o](const char* name, const auto& value) {
    if (value) o[name] = *value;
  };
  add("memory_used", g.memory_used);
  add("pool_held", g.held);
  add("pool_in_use", g.in_use);
  add("pool_peak", g.peak);
  add("utilisation", g.utilisation);
  add("memory_utilisation", g.memory_utilisation);
  add("temperature_c", g.temperature);
  add("power_w", g.power);
  if (!g.failure.empty()) o["failure"] = g.failure;
  return o;
}

// Values that are unknown are left out.
json_object gpus_json(const std::vector<repl_gpu>& list) {
  auto all = json_object::array();
  for (const auto& g : list) all.push_back(gpu_object(g));
  return all;
}

// "gpu:0 (NAME): 1.2 GiB of 79.6 GiB used, ..."
std::string gpu_line(const repl_gpu& g) {
  auto text =
      device_of(g) + (g.name.empty() ? "" : " (" + g.name + ")") + ": " + memory_of(g) + (g.memory_used ? " used" : " of memory");
  const auto add = [&text](const std::string& value, const char* what) {
    if (!value.empty()) text += ", " + value + what;
  };
  add(bytes_of(g.held), " held by this process");
  add(with_unit(g.utilisation, " %"), " busy");
  add(with_unit(g.temperature, " C"), "");
  add(g.failure, "");
  return text;
}

// A table below that of the nodes; empty: no GPUs.
std::string gpus_of_nodes_text(const repl_view& v) {
  text_table t({"node", "gpu", "name", "memory used", "held", "in use", "busy", "temperature", "power", ""});
  bool any = false;
  for (const auto& n : v.nodes)
    for (const auto& g : n.gpus) {
      any = true;
      t.add({n.name, device_of(g), g.name, memory_of(g), bytes_of(g.held), bytes_of(g.in_use), with_unit(g.utilisation, " %"),
             with_unit(g.temperature, " C"), with_unit(g.power, " W"), g.failure});
    }
  return any ? "\n\n" + t.text() : std::string();
}

}  // namespace

using namespace repl_text;

namespace {

json_object object_of(const repl_job& j) {
  json_object o{{"job", j.id}, {"name", j.name}, {"state", text_of(j.state)}, {"step", j.step}, {"last_step", j.last_step}};
  if (j.doing != job_activity::none) o["doing"] = text_of(j.doing);
  if (!j.owner.empty()) o["owner"] = j.owner;
  if (j.step > 0) {
    o["loss"] = j.loss;
    o["examples_per_s"] = j.examples_per_s;
  }
  if (j.accuracy >= 0) o["accuracy"] = j.accuracy;
  if (j.skipped > 0) o["skipped"] = j.skipped;
  if (j.node_failures > 0) o["losses"] = j.node_failures;
  if (j.replicas > 1) o["replicas"] = j.replicas;
  if (j.kept) {
    o["checkpoint_step"] = *j.kept;
    o["checkpoint_s"] = j.kept_seconds;
  }
  if (j.steps_at_risk) o["at_stake"] = *j.steps_at_risk;
  if (const auto mode = mode_of(j); !mode.empty()) o["mode"] = mode;
  if (j.lr) o["lr"] = *j.lr;
  if (j.evaluated) o["eval_step"] = *j.evaluated;
  for (const auto& s : j.stragglers)
    o["stragglers"].push_back(
        {{"role", s.role}, {"node", s.node}, {"step_ms", s.step_ms}, {"peers_ms", s.peers_ms}, {"step", s.step}});
  if (const auto epoch = epoch_of(j)) o["epoch"] = *epoch;
  if (const auto left = seconds_left(j)) o["eta_s"] = *left;
  if (j.about) {
    o["workers"] = j.about->workers;
    o["batch"] = j.about->batch;
    o["steps_per_epoch"] = j.about->steps_per_epoch;
  }
  if (j.folder) o["folder"] = *j.folder;
  if (!j.message.empty()) o["message"] = j.message;
  if (!j.weights_sha256.empty()) o["weights_sha256"] = j.weights_sha256;
  return o;
}

// What `status` shows of the current job below its progress, one line each.
std::string details(const repl_job& j) {
  std::string text;
  const auto add = [&text](const char* name, const std::string& value) {
    if (!value.empty()) text += std::string("\n  ") + name + std::string(10 - std::strlen(name), ' ') + value;
  };
  auto mode = mode_of(j);
  if (j.about) mode += (mode.empty() ? "" : ", ") + number(j.about->workers) + (j.about->workers == 1 ? " worker" : " workers");
  add("mode", mode);
  if (const auto epoch = epoch_of(j)) {
    auto epochs = fixed_text(*epoch, 2);
    if (j.last_step > 0)
      epochs += " of " + general_text(static_cast<double>(j.last_step) / static_cast<double>(j.about->steps_per_epoch), 8);
    add("epoch", epochs);
  }
  if (j.lr) add("lr", number(*j.lr));
  if (j.accuracy >= 0 && j.evaluated) add("accuracy", fixed_text(j.accuracy, 4) + " (step " + number(*j.evaluated) + ")");
  if (j.about && j.examples_per_s > 0) {
    auto speed = fixed_text(j.examples_per_s, 0) + " examples/s, " +
                 repl_duration(static_cast<double>(j.about->batch) / j.examples_per_s) + " per step (means over 5 s)";
    if (const auto left = seconds_left(j)) speed += ", " + repl_duration(*left) + " left";
    add("speed", speed);
  }
  for (const auto& s : j.stragglers)
    add("slow", s.role + (s.node.empty() ? "" : " on " + s.node) + ": " + general_text(s.step_ms, 3) + " ms in a step, its peers " +
                    general_text(s.peers_ms, 3) + " ms (step " + number(s.step) + ")");
  if (j.folder) add("folder", *j.folder);
  return text;
}

// "paused", "running (moving)"
std::string state_text(const repl_job& j) {
  return std::string(text_of(j.state)) + (j.doing == job_activity::none ? "" : " (" + std::string(text_of(j.doing)) + ")");
}

const repl_job* current(const repl_view& v) {
  const repl_job* found = nullptr;
  for (const auto& j : v.jobs)
    if (j.state != job_state::queued && j.state != job_state::checking && (!found || found->over())) found = &j;
  return found;
}

std::string progress(const repl_job& j) {
  auto text = "job " + number(j.id) + " (" + j.name + ") " + state_text(j) + ", step " + number(j.step);
  if (j.last_step > 0) text += " of " + number(j.last_step);
  if (j.step > 0) text += ", loss " + number(j.loss) + ", " + fixed_text(j.examples_per_s, 0) + " examples/s";
  if (j.accuracy >= 0) text += ", accuracy " + fixed_text(j.accuracy, 4);
  if (j.skipped > 0) text += ", " + number(j.skipped) + " steps skipped";
  if (j.node_failures > 0) text += ", " + number(j.node_failures) + (j.node_failures == 1 ? " node failure" : " node failures");
  if (j.replicas > 1) text += ", " + number(j.replicas) + " replicas";
  if (j.kept) text += ", checkpoint of step " + number(*j.kept) + " (" + fixed_text(j.kept_seconds, 0) + " s ago)";
  if (j.steps_at_risk)
    text += ", a node failure costs at most " + number(*j.steps_at_risk) + (*j.steps_at_risk == 1 ? " step" : " steps");
  if (!j.message.empty()) text += ": " + j.message;
  return text;
}

// By reason, without those that are 0.
json_object dropped_object(const drop_counts& d) {
  auto o = json_object::object();
  for (std::size_t i = 0; i < drop_reasons; ++i)
    if (d.by_reason[i] > 0) o[name_of(static_cast<drop_reason>(i))] = d.by_reason[i];
  return o;
}

// "12", or "12 (2 malformed)" if there are mistakes.
std::string dropped_text(const drop_counts& d) {
  const auto mistakes = mistakes_text(d);
  return number(d.total()) + (mistakes.empty() ? "" : " (" + mistakes + ")");
}

drop_counts dropped_by_roles(const repl_view& v) {
  drop_counts all;
  for (const auto& r : v.roles) all += r.what.status.dropped;
  return all;
}

}  // namespace

std::string repl_status_text(bool json, const repl_view& v) {
  std::size_t up = 0;
  for (const auto& n : v.nodes) up += n.state == "up" ? 1 : 0;
  const auto* j = current(v);
  if (json) {
    json_object o{{"command", "status"}, {"cluster", v.cluster}, {"node", v.node}, {"coordinator", v.coordinator}};
    o["up_seconds"] = v.up_seconds;
    if (!v.nodes.empty()) {
      o["nodes_up"] = up;
      o["nodes"] = v.nodes.size();
    }
    o["roles"] = v.roles.size();
    o["dropped"] = {{"unknown_job", v.dropped.unknown_job},
                    {"unknown_role", v.dropped.unknown_role},
                    {"old_incarnation", v.dropped.old_incarnation},
                    {"to_failed", v.dropped.to_failed},
                    {"unreadable", v.unreadable},
                    {"wrong_source", v.wrong_source},
                    {"by_roles", dropped_object(dropped_by_roles(v))}};
    if (!v.gpus.empty()) o["gpus"] = gpus_json(v.gpus);
    if (v.memory > 0) o["memory"] = v.memory;
    if (j) o["job"] = object_of(*j);
    return line_of(o);
  }
  std::string text =
      v.cluster.empty() ? "embedded" : "node " + v.node + " of cluster " + v.cluster + ", coordinated by " + v.coordinator;
  text += ", up " + fixed_text(v.up_seconds, 0) + " s";
  if (!v.nodes.empty()) text += "\n" + number(up) + " of " + number(v.nodes.size()) + " nodes up";
  if (v.unreadable > 0)
    text += "\n" + number(v.unreadable) + (v.unreadable == 1 ? " message" : " messages") + " from other nodes could not be decoded";
  if (const auto mistakes = dropped_by_roles(v).mistakes(); mistakes > 0)
    text += "\nroles have rejected " + number(mistakes) + (mistakes == 1 ? " message" : " messages") + ": see `roles`";
  for (const auto& g : v.gpus) text += "\n" + gpu_line(g);
  if (v.memory > 0)
    text += std::string("\n") + (v.cluster.empty() ? "this process" : "this daemon") + " has " +
            bytes_text(static_cast<double>(v.memory)) + " in memory";
  text += "\n" + (j ? progress(*j) + details(*j) : number(v.roles.size()) + " roles on this node");
  return text;
}

std::string repl_duration(double seconds) {
  if (!(seconds >= 0) || seconds > 1e9) return "?";
  if (seconds < 1) return fixed_text(seconds * 1e3, seconds < 0.01 ? 2 : 0) + " ms";
  if (seconds < 60) return fixed_text(seconds, seconds < 10 ? 1 : 0) + " s";
  const auto whole = static_cast<std::uint64_t>(std::llround(seconds));
  if (whole < 3600) return number(whole / 60) + " min" + (whole % 60 ? " " + number(whole % 60) + " s" : "");
  return number(whole / 3600) + " h" + (whole / 60 % 60 ? " " + number(whole / 60 % 60) + " min" : "");
}

namespace {

// "n2 shm, n3 tcp"; for many links, the number of each kind: "7 shm, 3 tcp".
std::string links_of(const repl_node& n) {
  constexpr std::size_t by_name = 4;
  std::map<std::string, std::size_t> count;
  std::string all;
  for (const auto& l : n.links) {
    ++count[l.by];
    all += (all.empty() ? "" : ", ") + l.peer + " " + l.by;
  }
  if (n.links.size() <= by_name) return all;
  all.clear();
  for (const auto& [by, k] : count) all += (all.empty() ? "" : ", ") + number(k) + " " + by;
  return all;
}

}  // namespace

std::string repl_nodes_text(bool json, const repl_view& v) {
  if (json) {
    auto list = json_object::array();
    for (const auto& n : v.nodes) {
      json_object o{{"name", n.name},           {"state", n.state},   {"address", n.address}, {"data_address", n.data_address},
                    {"seconds", n.seconds},     {"tcp_in", n.tcp_in}, {"tcp_out", n.tcp_out}, {"lives", n.lives},
                    {"losses", n.node_failures}};
      if (n.steps_at_risk) o["at_stake"] = *n.steps_at_risk;
      if (n.memory > 0) o["memory"] = n.memory;
      if (!n.note.empty()) o["note"] = n.note;
      auto links = json_object::array();
      for (const auto& l : n.links) {
        json_object link{
            {"peer", l.peer}, {"by", l.by}, {"bytes_in", l.bytes_in}, {"bytes_out", l.bytes_out}, {"lent_in", l.shared_in}};
        if (l.round_trip > 0) link["round_trip_ms"] = 1e3 * l.round_trip;
        if (!l.why_not.empty()) link["why_not_shared"] = l.why_not;
        links.push_back(std::move(link));
      }
      if (!links.empty()) o["links"] = std::move(links);
      if (!n.gpus.empty()) o["gpus"] = gpus_json(n.gpus);
      list.push_back(std::move(o));
    }
    return line_of({{"command", "nodes"}, {"nodes", list}});
  }
  text_table t(
      {"node", "state", "address", "data", "s", "bytes in", "bytes out", "memory", "joins", "failures", "at risk", "links", ""});
  for (const auto& n : v.nodes)
    t.add({n.name, n.state, n.address, n.data_address, fixed_text(n.seconds, 0), number(n.tcp_in), number(n.tcp_out),
           n.memory > 0 ? bytes_text(static_cast<double>(n.memory)) : "", number(n.lives), number(n.node_failures),
           n.steps_at_risk ? number(*n.steps_at_risk) + (*n.steps_at_risk == 1 ? " step" : " steps") : "", links_of(n), n.note});
  return t.text() + gpus_of_nodes_text(v);
}

std::string repl_roles_text(bool json, const repl_view& v) {
  if (json) {
    auto list = json_object::array();
    for (const auto& r : v.roles)
      list.push_back({{"node", r.node},
                      {"job", r.what.job & 0xffff},
                      {"name", r.what.name},
                      {"step", r.what.status.step},
                      {"version", r.what.status.version},
                      {"messages", r.what.messages},
                      {"busy_s", r.what.busy_seconds},
                      {"age_s", r.what.age_seconds},
                      {"waits_for", r.what.status.waits_for},
                      {"computes", task_text(r.what.task)},
                      {"dropped", dropped_object(r.what.status.dropped)}});
    return line_of({{"command", "roles"}, {"roles", list}});
  }
  text_table t({"node", "role", "step", "version", "messages", "dropped", "busy s", "waits for"});
  for (const auto& r : v.roles)
    t.add({r.node, r.what.name, number(r.what.status.step), number(r.what.status.version), number(r.what.messages),
           dropped_text(r.what.status.dropped), fixed_text(r.what.busy_seconds, 2), r.what.status.waits_for});
  return t.text();
}

std::string repl_queues_text(bool json, const repl_view& v) {
  if (json) {
    auto list = json_object::array();
    for (const auto& r : v.roles)
      list.push_back({{"node", r.node},
                      {"name", r.what.name},
                      {"queued", r.what.status.queued},
                      {"in_flight", r.what.status.in_flight},
                      {"credit", r.what.status.credit}});
    return line_of({{"command", "queues"}, {"queues", list}});
  }
  text_table t({"node", "role", "queued", "in flight", "credit"});
  for (const auto& r : v.roles)
    t.add({r.node, r.what.name, number(r.what.status.queued), number(r.what.status.in_flight), number(r.what.status.credit)});
  return t.text();
}

std::string repl_jobs_text(bool json, const repl_view& v) {
  if (json) {
    auto list = json_object::array();
    for (const auto& j : v.jobs) list.push_back(object_of(j));
    return line_of({{"command", "jobs"}, {"jobs", list}});
  }
  std::string text;
  for (const auto& j : v.jobs) text += (text.empty() ? "" : "\n") + progress(j) + (j.owner.empty() ? "" : " [" + j.owner + "]");
  return text.empty() ? "no jobs" : text;
}

namespace {

std::string usage_of(const repl_command_help& c) { return c.name + (c.arguments.empty() ? "" : " " + c.arguments); }

json_object object_of(const repl_command_help& c) {
  json_object o{{"name", c.name}, {"arguments", c.arguments}, {"doc", c.doc}};
  o["meanings"] = json_object::object();
  for (const auto& [name, meaning] : c.meanings) o["meanings"][name] = meaning;
  o["examples"] = json_object::array();
  for (const auto& [line, effect] : c.examples) o["examples"].push_back({{"line", line}, {"effect", effect}});
  return o;
}

// Two columns with an indent; `head` above them. Empty if there are no rows.
std::string help_part(const std::string& head, const std::vector<std::pair<std::string, std::string>>& rows) {
  if (rows.empty()) return {};
  std::size_t width = 0;
  for (const auto& [left, right] : rows) width = std::max(width, left.size());
  auto text = "\n\n" + head;
  for (const auto& [left, right] : rows) text += "\n  " + left + std::string(width + 2 - left.size(), ' ') + right;
  return text;
}

}  // namespace

std::string repl_help_text(bool json, const std::string& command) {
  auto list = json_object::array();
  text_table t({"command", "description"});
  for (const auto& c : repl_commands()) {
    if (!command.empty() && c.name != command) continue;
    list.push_back(object_of(c));
    if (!json && !command.empty())
      return usage_of(c) + "\n  " + c.doc + help_part("arguments", c.meanings) + help_part("examples", c.examples);
    t.add({usage_of(c), c.doc});
  }
  return json ? line_of({{"command", "help"}, {"commands", list}}) : t.text();
}

std::string repl_error_text(bool json, const std::string& what) {
  return json ? line_of({{"event", "error"}, {"where", "repl"}, {"message", what}}) : what;
}

repl_reply submitted_reply(bool json, std::uint32_t job, const std::vector<std::string>& messages) {
  const bool ok = job != 0;
  std::string text;
  if (json) {
    if (ok) return {repl_reply::kind::ok, line_of({{"command", "submit"}, {"job", job}})};
    for (const auto& m : messages) text += (text.empty() ? "" : "\n") + repl_error_text(true, m);
    return {repl_reply::kind::usage, text};
  }
  if (ok) return {repl_reply::kind::ok, "job " + number(job) + " queued"};
  for (const auto& m : messages) text += (text.empty() ? "" : "\n") + m;
  return {repl_reply::kind::usage, text};
}

}  // namespace troupe
