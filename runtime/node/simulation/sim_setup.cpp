#include "runtime/node/simulation/sim_setup.hpp"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "ops/device.hpp"
#include "runtime/base/wording.hpp"
#include "runtime/job/amend.hpp"
#include "runtime/job/coarse.hpp"
#include "runtime/job/copy.hpp"
#include "runtime/job/job_rule.hpp"
#include "runtime/job/plan_hash.hpp"
#include "runtime/node/config/cluster_file.hpp"
#include "runtime/node/config/job_file.hpp"
#include "runtime/node/config/prepare_text.hpp"
#include "runtime/node/executor/shared_preparer.hpp"
#include "runtime/plain/plain_loop.hpp"

namespace troupe {
namespace {

diagnostics mistake_in(source_position at, std::string what) {
  diagnostic d;
  d.at = std::move(at);
  d.message = std::move(what);
  return diagnostics(1, d);
}
diagnostics mistake(std::string what) { return mistake_in({"command line", 0, 0}, std::move(what)); }

// Replaces the tables of `into` by those that `file` has. `faults`: the file must have faults;
// otherwise it must have a network or compute model.
diagnostics merge(sim_spec& into, const std::string& file, bool faults) {
  auto read = read_sim_file(file);
  if (!read) return std::move(read).error();
  auto& s = *read;
  if (faults && !s.has_faults) return mistake_in({file, 1, 1}, "the file has no [[fault]] table");
  if (!faults && !s.has_network && !s.has_compute) return mistake_in({file, 1, 1}, "the file has neither [network] nor [compute]");
  if (s.has_network) into.network = s.network, into.has_network = true;
  if (s.has_compute) {
    into.has_compute = true;
    into.compute = s.compute;
    into.examples_per_second = s.examples_per_second;
    into.measure = s.measure;
  }
  if (s.has_faults) into.faults = s.faults, into.names_used = s.names_used;
  if (s.disk) into.disk = s.disk;
  into.nodes_named.insert(into.nodes_named.end(), s.nodes_named.begin(), s.nodes_named.end());
  return {};
}

// Reads the scenario, if `a.file` is one, and the model files. The scenario sets what the command
// line leaves open.
expected<sim_spec, diagnostics> read_models(sim_request& a) {
  sim_spec s;
  s.network.fabric = sim::fabric_kind::star;
  s.network.bytes_per_second = 1.25e9;
  const bool scenario = a.text.empty() && is_scenario(a.job);
  a.load_plugins = a.load_plugins || !(scenario || a.job_of_run);  // the user named the job's file
  if (scenario) {
    auto read = read_sim_file(a.job);
    if (!read) return unexpected(std::move(read).error());
    const auto fabric = s.network;
    s = std::move(*read);
    if (!s.has_network) s.network = fabric;
    const auto& run = *s.run;
    a.job = run.job;
    if (a.nodes == 0) a.nodes = run.nodes;
    if (a.maths.empty()) a.maths = run.maths;
    if (a.steps == 0) a.steps = run.steps.value_or(0);
    if (a.seed < 0) a.seed = run.seed.value_or(-1);
    if (a.buckets < 0) a.buckets = run.buckets.value_or(-1);
    a.overrides.insert(a.overrides.begin(), run.set.begin(), run.set.end());
  }
  if (a.nodes == 0 && a.cluster.empty())
    return unexpected(mistake("--nodes N is required (or --cluster FILE, or a scenario instead of a job)"));
  if (a.nodes != 0 && !a.cluster.empty())
    return unexpected(mistake("--cluster cannot be combined with --nodes or with the nodes of a scenario"));
  if (!a.network.empty())
    if (auto bad = merge(s, a.network, false); !bad.empty()) return unexpected(bad);
  if (!a.faults.empty())
    if (auto bad = merge(s, a.faults, true); !bad.empty()) return unexpected(bad);
  return s;
}

// The nodes of the virtual cluster: n1 to nN with one worker each; then nodes for the servers, if
// the job does not colocate them; then a node for every other name in a layer's `place`, which
// hosts only the layers placed there.
std::vector<node_spec> cluster_of(const job_spec& j, std::uint32_t workers) {
  std::vector<node_spec> nodes(workers);
  for (std::uint32_t i = 0; i < workers; ++i) nodes[i].name = "n" + std::to_string(i + 1);
  const auto add = [&](const std::string& name, std::vector<std::string> roles) {
    node_spec n;
    n.name = name;
    n.roles = std::move(roles);
    nodes.push_back(std::move(n));
  };
  if (!j.topology.colocated) {
    for (auto& n : nodes) n.roles = {"coordinator", "worker", "data"};
    const auto servers = std::clamp<std::int64_t>(j.topology.server_groups * j.topology.servers_per_group, 1, 65535);
    for (std::int64_t i = 0; i < servers; ++i) add("n" + std::to_string(nodes.size() + 1), {"server"});
  }
  for (const auto& l : j.layers)
    for (const auto& place : l.place) {
      const auto name = place.substr(0, place.find('/'));
      if (std::none_of(nodes.begin(), nodes.end(), [&](const node_spec& n) { return n.name == name; })) add(name, {});
    }
  return nodes;
}

// Without a cluster file: sets the number of workers to the number of nodes.
void set_workers(job_spec& j, std::uint32_t workers) {
  auto& t = j.topology;
  if (t.worker_groups > 1 && t.workers_per_group == 1) {
    // Each worker is a separate group, with separate servers if the job's groups have them.
    if (t.server_groups == t.worker_groups) t.server_groups = workers;
    t.worker_groups = workers;
  } else {
    // The job keeps its number of groups if that divides the workers; otherwise there is one group.
    if (t.worker_groups < 1 || workers % t.worker_groups != 0) t.worker_groups = 1;
    t.workers_per_group = workers / t.worker_groups;
  }
  j.pipeline.packets = std::max<std::int64_t>(j.pipeline.packets, workers);
  const auto packets = j.pipeline.packets;
  j.data.batch = (j.data.batch + packets - 1) / packets * packets;
}

// Position of the batch in the job file; if sim has changed the batch, also the reason and the
// remedy.
diagnostic batch_of(const job_spec& j, std::int64_t asked, std::uint32_t workers) {
  const auto at = position_of(j.data.key_at, "batch", j.data.at);
  if (j.data.batch == asked) return {at, {}};
  const auto more = j.data.values.values.contains("examples")
                        ? "set more examples (--set data.examples=" + std::to_string(j.data.batch) + ")"
                        : std::string("use data with more examples");
  return {at, "the job has batch " + std::to_string(asked) + ", and sim rounds it up to a multiple of its " +
                  std::to_string(j.pipeline.packets) + " packets, at least one for each of " + std::to_string(workers) +
                  " workers: " + more + " or fewer nodes"};
}

// Returns `list` with the message of `batch` appended to errors at the batch's position.
diagnostics explained(diagnostics list, const diagnostic& batch) {
  for (auto& d : list)
    if (!batch.message.empty() && d.at.to_string() == batch.at.to_string()) d.message += "; " + batch.message;
  return list;
}

// Returns true if a layer has a place or a partition other than "batch".
bool says_where(const job_spec& j) {
  return std::any_of(j.layers.begin(), j.layers.end(),
                     [](const layer_spec& l) { return !l.place.empty() || l.partition != "batch"; });
}

void adjust(job_spec& j, std::int64_t steps, bool maths, std::int64_t buckets) {
  if (steps > 0) {
    j.train.finish = {};
    j.train.finish.steps = steps;
  }
  if (!maths && buckets > 0) {
    j.pipeline.fuse = "auto";  // keeps the plan from which the coarse one is made small
    j.eval.every = 0;
  }
}

// Measures each layer's times for one packet on this machine, with one worker.
expected<plain_times, diagnostics> time_layers(const prepared_job& j, const std::shared_ptr<device>& dev) {
  auto spec = j.spec;
  spec.trains = false;
  spec.pipeline.packets = 1;
  spec.data.batch = j.graph.packet_examples;
  spec.topology = {};
  spec.train.sync = {"bsp", {}, {}};
  node_spec one;
  one.name = "local";
  auto alone = prepare_job(std::move(spec), j.all, {one});
  if (!alone) return unexpected(std::move(alone).error());
  plain_loop loop(*alone, dev);
  plain_times best;
  for (int i = 0; i < 4; ++i) {
    plain_times t;
    loop.step(&t);
    if (i == 0) continue;  // fills pools and caches
    if (best.layers.empty()) best = t;
    for (std::size_t l = 0; l < t.layers.size(); ++l) {
      best.layers[l].forward = std::min(best.layers[l].forward, t.layers[l].forward);
      best.layers[l].backward = std::min(best.layers[l].backward, t.layers[l].backward);
    }
    best.update = std::min(best.update, t.update);
  }
  return best;
}

diagnostics measure(sim_setup& s, const prepared_job& full, const std::shared_ptr<device>& dev) {
  auto timed = time_layers(full, dev);
  if (!timed) return std::move(timed).error();
  const auto& t = *timed;
  s.measured.resize(s.job->plan.roles.size());
  double forward = 0, backward = 0;
  for (const auto& l : t.layers) forward += l.forward, backward += l.backward;
  for (const auto& r : s.job->plan.roles) {
    auto& [f, b] = s.measured[index_of(r.id)];
    for (auto l : r.layers) {
      // Each bucket gets an equal share of the total time.
      const auto share = s.buckets > 0 ? 1.0 / static_cast<double>(s.job->graph.layers.size()) : 0.0;
      f += s.buckets > 0 ? forward * share : t.layers[l].forward;
      b += s.buckets > 0 ? backward * share : t.layers[l].backward;
    }
  }
  if (t.update > 0) {
    // The bytes that a shard accesses: gradient, old and new weights, each state read and written.
    const auto states = make_rule(full)->states().size();
    const auto bytes = static_cast<double>(full.graph.parameter_count) * static_cast<double>(size_of(full.spec.parameter_type()));
    s.world.compute.bytes_per_second = bytes * static_cast<double>(3 + 2 * states) / t.update;
  }
  return {};
}

void take_models(sim_setup& into, const sim_spec& s) {
  into.named_network = s.has_network, into.named_compute = s.has_compute;
  auto& w = into.world;
  w.network = s.network;
  w.compute = s.compute;
  w.faults = s.faults;
  w.disk = s.disk.value_or(sim::disk_model{});
}

// Whether a fault hits daemons or machines, so that the control plane matters.
bool needs_daemons(const sim::fault_model& m) {
  return std::any_of(m.list.begin(), m.list.end(), [](const sim::fault& f) {
    return at_a_moment(f.kind) || f.kind == sim::fault_kind::cut || f.kind == sim::fault_kind::disk_full;
  });
}

// The plans of the job that make_sim() has prepared.
class setup_plans final : public control::job_preparer {
 public:
  explicit setup_plans(std::shared_ptr<const prepared_job> j) : job_(std::move(j)) {}
  expected<control::made_plan, diagnostics> first(std::uint32_t job, const control::job_text&) override {
    auto j = copy_of(*job_);
    j->id = job;
    return control::made_plan{j, plan_hash(j->plan)};
  }
  expected<control::made_plan, diagnostics> again(const std::shared_ptr<const prepared_job>& original,
                                                  const amendments& a) override {
    auto j = prepare_again(original, a);
    if (!j) return unexpected(std::move(j).error());
    return control::made_plan{*j, plan_hash((*j)->plan)};
  }

 private:
  const std::shared_ptr<const prepared_job> job_;
};

// The times of daemons: of messages and stores from the models of network and disk; of plans and
// roles what daemons take (docs/measurements/recovery.md).
sim::daemon_times times_of(const sim::world_config& w) {
  using std::chrono::microseconds;
  sim::daemon_times t;
  t.plan = {microseconds(500), microseconds(1500)};
  t.roles = {microseconds(500), microseconds(2000)};
  t.end = {microseconds(10), microseconds(500)};
  t.state_bytes_per_second = 8e8;
  t.lines.silence = std::chrono::milliseconds(4400);  // 4 s, and the time between two looks
  const auto& n = w.network;
  if (n.fabric == sim::fabric_kind::uniform) {
    t.control = {n.least, n.most};
  } else {
    const auto links = n.fabric == sim::fabric_kind::tree ? 4 : 2;
    constexpr auto handling = std::chrono::microseconds(100);  // by both daemons
    t.control = {links * n.latency, links * n.latency + n.jitter + handling};
  }
  if (w.disk.latency > duration{}) t.store = {w.disk.latency, w.disk.latency};
  t.store_bytes_per_second = w.disk.bytes_per_second;
  return t;
}

// The daemons of the virtual cluster. The first node has the coordinator's daemon if none is named.
sim::cluster_config daemons_of(const sim_setup& s, const std::shared_ptr<const prepared_job>& full, std::vector<node_spec> nodes,
                               const sim_request& a, std::shared_ptr<device> dev) {
  sim::cluster_config c;
  c.world = s.world;
  c.times = times_of(s.world);
  c.cluster.name = "sim";
  const auto coordinates = [](const node_spec& n) { return std::count(n.roles.begin(), n.roles.end(), "coordinator") > 0; };
  if (std::none_of(nodes.begin(), nodes.end(), coordinates)) nodes.front().roles.push_back("coordinator");
  c.cluster.nodes = std::move(nodes);
  c.job = {a.job, a.text, a.overrides};
  c.all = full->all;
  if (s.maths) c.dev = std::move(dev);
  c.numerics = "sim";
  control::shared_preparer::change then;
  if (s.buckets > 0) then = [buckets = s.buckets](const prepared_job& j) { return make_coarse(j, buckets, j.nodes); };
  if (s.buckets == 0 && !s.maths) then = [](const prepared_job& j) { return make_counted(j, j.nodes); };
  c.plans = [full, then] { return std::make_shared<control::shared_preparer>(std::make_shared<setup_plans>(full), then); };
  return c;
}

// The faults, and daemons if one of them hits a daemon. `full`: the job with its own layers.
void take_faults(sim_setup& s, const sim_spec& models, const std::shared_ptr<const prepared_job>& full,
                 std::vector<node_spec> nodes, const sim_request& a, const std::shared_ptr<device>& dev) {
  s.same_bits = full->all->modes.find(full->spec.train.sync.kind)->lockstep;
  if (!a.daemons && !needs_daemons(models.faults)) return;
  s.machine_faults = models.faults;
  std::erase_if(s.machine_faults.list, [](const sim::fault& f) { return of_the_wire(f.kind); });
  s.world.faults = wire_faults(models.faults);
  s.daemons = daemons_of(s, full, std::move(nodes), a, dev);
}

diagnostics read_text(sim_request& a) {
  if (!a.text.empty()) return {};
  auto text = read_config_text(a.job);
  if (!text) return std::move(text).error();
  a.text = *std::move(text);
  return {};
}

}  // namespace

expected<sim_setup, diagnostics> make_sim(sim_request a, std::shared_ptr<device> dev, std::shared_ptr<const tables> all) {
  auto read = read_models(a);
  if (!read) return unexpected(std::move(read).error());
  auto& models = *read;
  sim_setup s;
  s.maths = a.maths != "none";
  if (s.maths && a.buckets > 0) return unexpected(mistake("--buckets requires --maths none: real maths needs the real layers"));
  s.workers = a.nodes;
  const auto buckets_asked = static_cast<std::uint32_t>(a.buckets < 0 ? 4 : a.buckets);
  if (auto bad = read_text(a); !bad.empty()) return unexpected(bad);
  std::vector<node_spec> nodes;
  if (!a.cluster.empty()) {
    auto cluster = read_cluster_file(a.cluster);
    if (!cluster) return unexpected(std::move(cluster).error());
    nodes = std::move(cluster->nodes);
  }
  diagnostic batch;
  auto prepared = prepare_text({a.text, a.job, a.overrides, {}, a.load_plugins}, std::move(all), {},
                               [&](job_spec& j, std::vector<node_spec>& list) {
                                 s.asked_batch = j.data.batch;
                                 if (a.cluster.empty()) set_workers(j, s.workers);
                                 batch = batch_of(j, s.asked_batch, s.workers);
                                 // Buckets are on every worker, so placed layers exclude them.
                                 s.buckets = s.maths || (a.buckets < 0 && says_where(j)) ? 0 : buckets_asked;
                                 adjust(j, a.steps, s.maths, s.buckets);
                                 list = nodes = a.cluster.empty() ? cluster_of(j, s.workers) : std::move(nodes);
                               });
  if (!prepared) return unexpected(explained(std::move(prepared).error(), batch));
  const auto full = *prepared;
  s.job = full;
  if (s.buckets > 0 && full->plan.placed)
    return unexpected(mistake(
        "--buckets splits the model evenly on every worker and does not support placed layers: omit it, or use --buckets 0"));
  if (s.buckets > 0) {
    auto coarse = make_coarse(*full, s.buckets, nodes);
    if (!coarse) return unexpected(std::move(coarse).error());
    s.job = *coarse;
  } else if (!s.maths) {
    auto counted = make_counted(*full, nodes);
    if (!counted) return unexpected(std::move(counted).error());
    s.job = *counted;
  }
  for (const auto& n : nodes) s.world.node_names.push_back(n.name);
  if (auto bad = find_nodes(models, s.world.node_names); !bad.empty()) return unexpected(bad);
  s.world.seed = a.seed < 0 ? 1 : static_cast<std::uint64_t>(a.seed);
  take_models(s, models);
  s.world.dev = s.maths ? dev.get() : nullptr, s.world.maths = s.job->spec.maths;
  if (models.examples_per_second > 0) {
    // Forward plus backward take three times the forward's flops.
    const auto examples = static_cast<double>(s.job->graph.packet_examples);
    s.world.compute.flops_per_second = 3 * s.job->graph.flops_per_packet() / examples * models.examples_per_second;
  }
  if (models.measure)
    if (auto bad = measure(s, *full, dev); !bad.empty()) return unexpected(std::move(bad));
  take_faults(s, models, full, std::move(nodes), a, dev);
  return s;
}

void begin_sim(const sim_setup& s, sim::world& world) {
  for (const auto& r : s.job->plan.roles) world.add(r.id, r.node, make_role(s.job, r.id), r.device);
  if (!s.measured.empty())
    world.measured = [&s](role_id r, const task_cost& c) -> std::optional<duration> {
      const auto& [f, b] = s.measured[index_of(r)];
      const std::string_view kind = c.kind;
      if (kind != "forward" && kind != "backward") return std::nullopt;
      return duration(static_cast<std::int64_t>(1e9 * (kind == "forward" ? f : b)));
    };
  envelope go;
  go.h.dst = role_id{0};
  go.body = start{};
  world.inject(std::move(go));
}

}  // namespace troupe
