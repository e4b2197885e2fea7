#include "actors/page/state.hpp"

#include <array>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "actors/repl/waits.hpp"
#include "runtime/base/number_text.hpp"
#include "runtime/base/printable.hpp"
#include "runtime/base/version.hpp"
#include "runtime/cluster/view/about.hpp"
#include "runtime/cluster/view/job_progress.hpp"

namespace troupe {
namespace {

using json = nlohmann::json;

constexpr std::size_t longest_message = 4 << 10;
constexpr std::array<const char*, wait_kinds> wait_names = {"none",   "data",  "inputs",  "weights", "gradients",
                                                            "credit", "grant", "answers", "user"};
constexpr std::array<const char*, 6> root_names = {"failed", "silent", "user", "task", "idle", "connection"};

// Members that are left out if they say nothing.
void put_number(json& o, const char* key, double x) {
  if (const auto n = shown_number(x)) o[key] = *n;
}
void put_number(json& o, const char* key, const std::optional<double>& x) {
  if (x) put_number(o, key, *x);
}
void put_text(json& o, const char* key, const std::string& text) {
  if (!text.empty()) o[key] = text;
}
void put_count(json& o, const char* key, std::uint64_t n) {
  if (n > 0) o[key] = n;
}
void put_count(json& o, const char* key, const std::optional<std::uint64_t>& n) {
  if (n) o[key] = *n;
}
void put_age(json& o, const char* key, double seconds) {
  if (seconds >= 1 && seconds < 1e12) o[key] = static_cast<std::uint64_t>(seconds);
}

constexpr double least_unheard = 2;  // a node without roles reports every second

std::string id_of(const repl_role& r) { return r.node + "/" + r.what.name; }

json gpus_of(const std::vector<repl_gpu>& gpus) {
  auto list = json::array();
  for (const auto& g : gpus) {
    json o{{"number", g.number}};
    put_text(o, "name", g.name);
    put_text(o, "failure", g.failure);
    put_count(o, "memory_total", g.memory_total);
    put_count(o, "memory_used", g.memory_used);
    put_number(o, "utilisation", g.utilisation);
    put_number(o, "temperature", g.temperature);
    put_number(o, "power", g.power);
    list.push_back(std::move(o));
  }
  return list;
}

json links_of(const repl_node& n) {
  auto links = json::object();
  for (const auto& l : n.links) {
    json o{{"by", l.by}, {"in", l.bytes_in}, {"out", l.bytes_out}};
    put_count(o, "shared_in", l.shared_in);
    put_text(o, "why_not", l.why_not);
    // Rounded to 50 us, so that it rarely changes: it is measured every second.
    if (l.round_trip > 0) put_number(o, "round_trip_us", std::max(50.0, std::round(l.round_trip * 2e4) * 50));
    links[l.peer] = std::move(o);
  }
  return links;
}

json state_of(const repl_node& n) {
  json o{{"state", n.state}, {"links", links_of(n)}};
  put_text(o, "address", n.address);
  put_text(o, "data_address", n.data_address);
  put_text(o, "note", n.note);
  if (n.off) o["off"] = true;
  if (n.drained) o["drained"] = true;
  put_age(o, "since", n.seconds);
  if (n.unheard_seconds >= least_unheard) put_age(o, "unheard", n.unheard_seconds);
  put_count(o, "tcp_in", n.tcp_in);
  put_count(o, "tcp_out", n.tcp_out);
  put_count(o, "lives", n.lives);
  put_count(o, "failures", n.node_failures);
  put_count(o, "at_risk", n.steps_at_risk);
  put_count(o, "memory", n.memory);
  if (!n.gpus.empty()) o["gpus"] = gpus_of(n.gpus);
  return o;
}

void put_about(json& o, const repl_about& a) {
  o["workers"] = a.workers;
  o["batch"] = a.batch;
  put_count(o, "steps_per_epoch", a.steps_per_epoch);
  o["first_step"] = a.first_step;
  o["evaluates"] = a.evaluates;
  auto layers = json::array(), modes = json::array();
  for (const auto& l : a.layers) {
    json x{{"name", l.name}, {"type", l.type}, {"inputs", l.inputs}, {"out", l.out}};
    std::int64_t count = 0;
    for (const auto& p : l.parameters) count += p.count;
    if (count > 0) x["parameters"] = count;
    layers.push_back(std::move(x));
  }
  for (const auto& m : a.modes) modes.push_back({{"name", m.name}, {"options", m.options}});
  o["layers"] = std::move(layers);
  o["modes"] = std::move(modes);
}

json settings_of(const repl_job& j) {
  auto all = json::object();
  for (const char* key : {"train.dynamics.lr", "train.dynamics.decay"})
    if (const auto value = setting_of(j, key)) put_number(all[key], "value", *value);
  for (const auto& s : j.settings) {
    json o{{"from", s.from}};
    put_number(o, "value", s.value);
    put_number(o, "before", s.before);
    all[s.key] = std::move(o);
  }
  for (auto at = all.begin(); at != all.end();) at = at->is_null() ? all.erase(at) : std::next(at);
  return all;
}

json state_of(const repl_job& j) {
  json o{{"name", j.name}, {"state", text_of(j.state)}, {"step", j.step}, {"settings", settings_of(j)}};
  put_text(o, "doing", text_of(j.doing));
  put_count(o, "last_step", j.last_step);
  put_text(o, "owner", j.owner);
  put_text(o, "message", shortened(j.message, longest_message));
  put_text(o, "weights_sha256", j.weights_sha256);
  if (j.step > 0) put_number(o, "loss", j.loss);
  if (j.accuracy >= 0) put_number(o, "accuracy", j.accuracy);
  put_count(o, "eval_step", j.evaluated);
  put_number(o, "examples_per_s", j.examples_per_s);
  put_number(o, "lr", j.lr);
  put_text(o, "mode", mode_of(j));
  if (const auto epoch = epoch_of(j)) put_number(o, "epoch", *epoch);
  if (const auto left = seconds_left(j)) put_age(o, "left", *left);
  for (const auto& s : j.stragglers) {
    json one{{"role", s.role}, {"step", s.step}};
    put_text(one, "node", s.node);
    put_number(one, "costs_ms", std::round((s.step_ms - s.peers_ms) * 10) / 10);
    put_number(one, "peers_ms", std::round(s.peers_ms * 10) / 10);
    o["stragglers"].push_back(std::move(one));
  }
  put_count(o, "skipped", j.skipped);
  put_count(o, "failures", j.node_failures);
  if (j.replicas > 1) o["replicas"] = j.replicas;
  put_count(o, "checkpoint", j.kept);
  put_age(o, "checkpoint_age", j.kept_seconds);
  put_count(o, "at_risk", j.steps_at_risk);
  if (j.folder) put_text(o, "folder", *j.folder);
  if (j.about) put_about(o, *j.about);
  return o;
}

json state_of(const repl_role& r) {
  const auto& p = r.what;
  const auto& s = p.status;
  json o{{"node", r.node}, {"name", p.name}, {"job", p.job & 0xffff}};
  put_count(o, "step", s.step);
  put_count(o, "version", s.version);
  put_count(o, "queued", s.queued);
  put_count(o, "in_flight", s.in_flight);
  put_count(o, "credit", s.credit);
  put_count(o, "messages", p.messages);
  put_number(o, "busy", std::round(p.busy_seconds * 100) / 100);
  put_age(o, "age", p.age_seconds);
  put_count(o, "mistakes", s.dropped.mistakes());
  if (s.waits != wait_kind::none) o["waits"] = wait_names[static_cast<std::size_t>(s.waits)];
  put_text(o, "waits_for", s.waits_for);
  if (!s.staleness.empty()) o["staleness"] = s.staleness;
  if (p.task.serial != 0) {
    json task{{"kind", p.task.kind}};
    if (p.task.of_packet) task["packet"] = p.task.packet;
    task["step"] = p.task.step;
    put_age(task, "age", p.task.seconds);
    o["task"] = std::move(task);
  }
  return o;
}

void put_waits(json& o, const repl_view& v) {
  const auto ids = [&](const std::vector<std::size_t>& list) {
    auto names = json::array();
    for (const auto i : list) names.push_back(id_of(v.roles[i]));
    return names;
  };
  auto& roots = o["roots"] = json::array();
  for (const auto& r : wait_roots(v)) {
    json root{{"cause", root_names[static_cast<std::size_t>(r.what)]}, {"role", id_of(v.roles[r.role])}, {"text", r.text}};
    root["held_up"] = ids(r.held_up);
    root["chain"] = ids(r.chain);
    put_age(root, "age", r.seconds);
    if (!r.nodes.empty()) root["nodes"] = r.nodes;
    roots.push_back(std::move(root));
  }
  auto& edges = o["edges"] = json::object();
  auto all = wait_edges(v);
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i].empty()) continue;
    if (all[i].size() > max_edges) all[i].resize(max_edges);
    edges[id_of(v.roles[i])] = ids(all[i]);
  }
}

}  // namespace

std::optional<double> shown_number(double x) {
  if (!std::isfinite(x)) return std::nullopt;
  double shown = x;
  read_number(general_text(x, 6), shown);
  return shown;
}

json page_state(const repl_view& v, page_role role) {
  json o{{"about", {{"node", v.node}, {"version", troupe_version}, {"role", text_of(role)}}}};
  put_text(o["about"], "cluster", v.cluster);
  put_text(o["about"], "coordinator", v.coordinator);
  o["about"]["may"] = {
      {"run_jobs", may(role, right::run_jobs)}, {"all", may(role, right::all)}, {"inject", v.may_inject && may(role, right::all)}};
  put_age(o, "up", v.up_seconds);
  auto& nodes = o["nodes"] = json::object();
  for (const auto& n : v.nodes) nodes[n.name] = state_of(n);
  if (v.nodes.empty()) {  // embedded: this process
    json here{{"state", "up"}, {"links", json::object()}};
    put_count(here, "memory", v.memory);
    if (!v.gpus.empty()) here["gpus"] = gpus_of(v.gpus);
    nodes[v.node] = std::move(here);
  }
  auto& jobs = o["jobs"] = json::object();
  for (const auto& j : v.jobs) jobs[std::to_string(j.id)] = state_of(j);
  auto& roles = o["roles"] = json::object();
  for (const auto& r : v.roles) roles[id_of(r)] = state_of(r);
  put_waits(o, v);
  return o;
}

}  // namespace troupe
