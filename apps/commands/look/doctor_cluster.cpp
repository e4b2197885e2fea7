// `troupe doctor --cluster FILE`: asks the daemon of each node for the facts about its machine,
// then each pair of nodes for the link between them. Nodes of one host are asked one after the
// other, because measurements would disturb each other; different hosts at the same time.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <thread>

#include "actors/repl/repl.hpp"
#include "apps/commands/look/doctor.hpp"
#include "runtime/base/version.hpp"
#include "runtime/node/config/cluster_file.hpp"
#include "runtime/node/machine/facts_json.hpp"
#include "runtime/node/machine/reading.hpp"
#include "runtime/node/net/transport.hpp"
#include "runtime/node/pki/certificates.hpp"

namespace troupe {
namespace {

using namespace std::chrono_literals;
using ticks = std::chrono::steady_clock;
namespace fs = std::filesystem;

constexpr auto connect_within = 4s, result_within = 20s;
constexpr std::size_t most_threads = 16;

struct examined_node {
  node_spec spec;
  std::string host;  // numeric
  machine::contact contact;
  repl_lines lines;  // of its daemon; empty: it does not answer
  machine::facts facts;
};

// Calls `work` with each index below `count`, in several threads.
void in_parallel(std::size_t count, const std::function<void(std::size_t)>& work) {
  std::atomic<std::size_t> next{0};
  const auto worker = [&] {
    for (auto i = next++; i < count; i = next++) work(i);
  };
  std::vector<std::jthread> others;
  for (std::size_t t = 1; t < std::min(count, most_threads); ++t) others.emplace_back(worker);
  worker();
}

std::string ticket() {
  std::random_device random;
  std::string text;
  for (int i = 0; i < 16; ++i) text += "0123456789abcdef"[random() % 16];
  return text;
}

// Sends a line and waits for its result.
expected<std::string> answer_of(const repl_lines& lines, const std::string& line) {
  std::string text;
  const auto until = ticks::now() + result_within;
  bool late = false;
  const auto reply = run_line(
      lines, line, nullptr, [&](const repl_reply& r) { text = r.text; },
      [&] {
        std::this_thread::sleep_for(repl_ask_every);
        late = ticks::now() >= until;
        return !late;
      });
  if (late) return unexpected(error("it did not answer within 20 s"));
  if (reply.how == repl_reply::kind::ok) return text;
  const auto o = nlohmann::json::parse(reply.text, nullptr, false);
  const auto why = o.is_object() ? o.value("message", reply.text) : reply.text;
  if (reply.how == repl_reply::kind::usage)
    return unexpected(error("its daemon does not know this command, so it has another version: " + why));
  return unexpected(error(why));
}

class cluster_examination {
 public:
  cluster_examination(const cluster_spec& c, const doctor_arguments& a) : cluster_(c), busy_(a.busy ? " busy" : "") {
    for (const auto& spec : c.nodes) {
      examined_node n;
      n.spec = spec;
      n.contact.node = spec.name;
      n.contact.address = spec.address;
      if (const auto at = net::parse_address(spec.address)) n.host = machine::numeric_host(at->host);
      nodes_.push_back(std::move(n));
    }
  }

  void examine() {
    in_parallel(nodes_.size(), [this](std::size_t i) { connect(nodes_[i]); });
    read_states();
    std::map<std::string, std::vector<std::size_t>> by_host;
    for (std::size_t i = 0; i < nodes_.size(); ++i)
      if (nodes_[i].lines) by_host[nodes_[i].host].push_back(i);
    std::vector<std::vector<std::size_t>> hosts;
    for (auto& [host, list] : by_host) hosts.push_back(std::move(list));
    in_parallel(hosts.size(), [&](std::size_t h) {
      for (const auto i : hosts[h]) read_machine(nodes_[i]);
    });
    measure_links();
  }

  const std::vector<examined_node>& nodes() const { return nodes_; }
  const std::vector<machine::link>& links() const { return links_; }

 private:
  void connect(examined_node& n) const {
    auto where = coordinator_of(cluster_);
    where.address = n.spec.address;
    where.node = n.spec.name;
    auto lines = connect_repl(where, true, connect_within);
    if (lines) {
      n.lines = std::move(*lines);
      return;
    }
    n.contact.problem = lines.error().text;
    const auto at = net::parse_address(n.spec.address);
    if (!at) return;
    const auto port = machine::state_of_port(at->host, at->port);
    n.contact.here = port != machine::port_state::elsewhere;
    n.contact.port_taken = port == machine::port_state::taken;
  }

  // The state of each node by the coordinator's daemon.
  void read_states() {
    const auto name = coordinator_of(cluster_).node;
    const auto at = std::find_if(nodes_.begin(), nodes_.end(), [&](const auto& n) { return n.spec.name == name; });
    if (at == nodes_.end() || !at->lines) return;
    const auto text = answer_of(at->lines, "nodes");
    if (!text) return;
    const auto o = nlohmann::json::parse(*text, nullptr, false);
    if (!o.is_object() || !o.contains("nodes")) return;
    for (const auto& one : o["nodes"])
      for (auto& n : nodes_)
        if (n.spec.name == one.value("name", "")) n.contact.state = one.value("state", ""), n.contact.note = one.value("note", "");
  }

  void read_machine(examined_node& n) const {
    const auto asked = std::chrono::system_clock::now();
    const auto text = answer_of(n.lines, "_machine " + ticket() + busy_);
    auto facts = text ? machine::facts_of_json(*text) : expected<machine::facts>(unexpected(text.error()));
    if (!facts) {
      n.contact.problem = facts.error().text;
      n.contact.state.clear();  // it was up before
      n.lines = nullptr;
      return;
    }
    n.facts = std::move(*facts);
    n.contact.version = n.facts.version;
    n.contact.clock_ahead = n.facts.clock.time - std::chrono::duration<double>(asked.time_since_epoch()).count();
  }

  machine::link measure(const examined_node& from, const examined_node& to) const {
    machine::link l;
    const auto text = answer_of(from.lines, "_link " + ticket() + " " + to.spec.name + " " + to.facts.data_address + busy_);
    auto read = text ? machine::link_of_json(*text) : expected<machine::link>(unexpected(text.error()));
    if (read)
      l = std::move(*read);
    else
      l.problem = read.error().text;
    l.from = from.spec.name, l.to = to.spec.name;
    return l;
  }

  // All links, in rounds: in round r each node sends to the r-th node after it. Of one round those
  // are measured at the same time that share no host.
  void measure_links() {
    std::vector<const examined_node*> up;
    for (const auto& n : nodes_)
      if (n.lines) up.push_back(&n);
    std::map<std::pair<std::string, std::string>, machine::link> found;
    for (std::size_t round = 1; round < up.size(); ++round) {
      std::vector<std::pair<std::size_t, std::size_t>> todo;
      for (std::size_t i = 0; i < up.size(); ++i) todo.emplace_back(i, (i + round) % up.size());
      while (!todo.empty()) {
        std::set<std::string> senders, receivers;
        std::vector<std::pair<std::size_t, std::size_t>> now, later;
        for (const auto& way : todo) {
          const auto &from = up[way.first]->host, &to = up[way.second]->host;
          const bool free = !senders.contains(from) && !receivers.contains(to) &&
                            (from != to || (!senders.contains(to) && !receivers.contains(from)));
          (free ? now : later).push_back(way);
          if (free) senders.insert(from), receivers.insert(to);
        }
        std::vector<machine::link> measured(now.size());
        in_parallel(now.size(), [&](std::size_t k) { measured[k] = measure(*up[now[k].first], *up[now[k].second]); });
        for (auto& l : measured) found[{l.from, l.to}] = std::move(l);
        todo = std::move(later);
      }
    }
    for (const auto* a : up)
      for (const auto* b : up)
        if (const auto at = found.find({a->spec.name, b->spec.name}); at != found.end()) links_.push_back(std::move(at->second));
  }

  const cluster_spec& cluster_;
  const std::string busy_;
  std::vector<examined_node> nodes_;
  std::vector<machine::link> links_;
};

// The certificates that are on this machine: the client's, and those of nodes that do not answer.
void show_certificates(const cluster_spec& c, const doctor_arguments& a, const std::vector<examined_node>& nodes,
                       doctor_report& report) {
  const std::string client(client_name);
  report.show(machine::check_of(machine::read_pair(client, certificate_folder(c.tls_dir, client)), a.cluster));
  for (const auto& n : nodes) {
    const auto folder = certificate_folder(c.tls_dir, n.spec.name);
    std::error_code ec;
    if (!n.lines && fs::exists(folder / (n.spec.name + ".pem"), ec))
      report.show(machine::check_of(machine::read_pair(n.spec.name, folder), a.cluster));
  }
}

unsigned cpu_devices(const node_spec& n) {
  const auto cpus = std::count_if(n.devices.begin(), n.devices.end(), [](const auto& d) { return d.starts_with("cpu"); });
  return static_cast<unsigned>(std::max<std::ptrdiff_t>(1, cpus));
}

}  // namespace

int run_doctor_cluster(const doctor_arguments& a, const output& out) {
  const auto read = read_cluster_file(a.cluster);
  if (!read) {
    (void)out.wrong(read.error());
    return out.wrong("doctor", "mend the cluster file, then run: troupe check " + a.cluster);
  }
  const auto& c = *read;
  if (!out.json()) out.remark("examines " + std::to_string(c.nodes.size()) + " nodes; each takes about 3 s");
  cluster_examination all(c, a);
  all.examine();
  doctor_report report(out);
  report.heading("this machine");
  report.show({"cluster file", machine::verdict::ok, a.cluster + ": " + std::to_string(c.nodes.size()) + " nodes"});
  show_certificates(c, a, all.nodes(), report);
  for (const auto& n : all.nodes()) {
    report.heading("node " + n.spec.name);
    report.show(machine::checks_of(n.contact, troupe_version, a.cluster));
    if (n.lines) report.show(machine::checks_of(n.facts, n.spec.name, a.cluster));
  }
  if (!all.links().empty()) {
    report.heading("links");
    report.show_links(machine::checks_of(all.links()), all.links());
  }
  if (!a.out.empty()) {
    std::vector<machine::measured_node> measured;
    for (const auto& n : all.nodes()) measured.push_back({n.spec.name, cpu_devices(n.spec), n.facts});
    if (const auto bad = write_machine_file(a.out, measured, all.links()); !bad.empty()) return out.failed(a.out, bad);
  }
  return report.end();
}

}  // namespace troupe
