// What a daemon measures for `troupe doctor`: its machine, and its connections with other nodes.
#include <algorithm>

#include "actors/control/host/actors.hpp"
#include "runtime/node/machine/facts_json.hpp"
#include "runtime/node/machine/reading.hpp"
#include "runtime/node/pki/certificates.hpp"

namespace troupe::control {
namespace {

constexpr const char* job_runs_here = "a job runs on this node; --busy measures all the same";

const node_spec& this_node(const shared& s) {
  return *std::find_if(s.options.cluster.nodes.begin(), s.options.cluster.nodes.end(),
                       [&](const node_spec& n) { return n.name == s.options.node; });
}

void add_gpus(machine::facts& f, const shared& s) {
  for (const auto& g : shown(s.gpus->latest()))
    f.gpus.push_back({"gpu:" + std::to_string(g.number) + (g.name.empty() ? "" : " " + g.name), g.failure});
  if (f.gpus.empty()) f.why_no_gpu = "`devices` of this node lists none";
}

std::string measured_machine(const shared& s, bool quiet) {
  machine::wanted w;
  w.speed = w.disks = !quiet;
  w.why_no_speed = job_runs_here;
  w.folders.emplace_back("state", s.options.state.string());
  auto f = machine::read_facts(w);
  f.certificates.push_back(machine::read_pair(s.options.node, certificate_folder(s.options.cluster.tls_dir, s.options.node)));
  if (auto at = data_place_of(this_node(s))) {
    at->port = s.ports.data;
    f.address = machine::numeric_host(at->host);
    f.data_address = net::to_string(*at);
  }
  add_gpus(f, s);
  return machine::to_json(f);
}

}  // namespace

std::string measured_by(shared& s, const repl_measurement& what) {
  const bool quiet = !what.busy && !s.host->published().empty();
  if (what.peer.empty()) return measured_machine(s, quiet);
  machine::link l;
  if (const auto at = net::parse_address(what.address))
    l = s.meter.measure(*s.data_net, what.peer, *at, !quiet);
  else
    l.problem = at.error().message;
  l.from = s.options.node;
  if (quiet) l.skipped = job_runs_here;
  return machine::to_json(l);
}

}  // namespace troupe::control
