#include "runtime/node/config/sim_file.hpp"

#include <algorithm>
#include <cmath>

#include "runtime/base/wording.hpp"
#include "runtime/node/config/document.hpp"
#include "runtime/node/config/fault_trace.hpp"
#include "runtime/node/config/plugin_list.hpp"
#include "runtime/node/config/table_reader.hpp"
#include "runtime/spec/mistakes.hpp"

namespace troupe {
namespace {

using sim::fault_kind;

constexpr std::int64_t max_nodes = 65535;
constexpr double max_seconds = 1e9;

duration in_ns(double seconds) { return duration(static_cast<std::int64_t>(std::llround(seconds * 1e9))); }

const std::vector<std::string> fault_kinds{"delay", "reorder", "duplicate", "drop", "partition",
                                           "slow",  "crash",   "slow_disk", "skew"};

class sim_reader {
 public:
  sim_reader(const document_table& root, const std::string& file) : root_(root, "", {file, 1, 1}, errors_) { spec_.file = file; }

  expected<sim_spec, diagnostics> read() {
    if (auto r = root_.table("run", "[run]")) read_run(*r);
    if (auto r = root_.table("network", "[network]")) read_network(*r);
    if (auto r = root_.table("compute", "[compute]")) read_compute(*r);
    if (auto r = root_.table("disk", "[disk]")) {
      auto& d = spec_.disk.emplace();
      rate(*r, "bandwidth", d.bytes_per_second);
      time(*r, "latency", d.latency);
      r->finish();
    }
    time(root_, "detect", spec_.faults.detect);
    time(root_, "resend", spec_.faults.resend);
    if (spec_.faults.resend.count() <= 0) root_.error("resend", "'resend' must be greater than 0");
    each(root_, "fault", [&](table_reader& r) { read_fault(r); });
    root_.finish();
    std::stable_sort(errors_.begin(), errors_.end(), [](const diagnostic& a, const diagnostic& b) {
      return std::pair(a.at.line, a.at.column) < std::pair(b.at.line, b.at.column);
    });
    if (!errors_.empty()) return unexpected(shown_mistakes(std::move(errors_)));
    return std::move(spec_);
  }

 private:
  bool time(table_reader& r, std::string_view key, duration& into) {
    double s = 0;
    if (!r.time(key, s)) return false;
    if (!(s >= 0 && s <= max_seconds)) return r.error(key, in_quotes(key) + " is out of range"), false;
    into = in_ns(s);
    return true;
  }

  // "2.8GB/s", or a plain number of bytes per second. 0: no cost per byte.
  bool rate(table_reader& r, std::string_view key, double& into) {
    const auto* v = r.take(key);
    if (!v) return false;
    std::optional<double> n;
    if (const auto* i = std::get_if<std::int64_t>(&v->value)) n = static_cast<double>(*i);
    if (const auto* d = std::get_if<double>(&v->value)) n = *d;
    if (const auto* s = std::get_if<std::string>(&v->value); s && s->ends_with("/s")) n = parse_bytes(s->substr(0, s->size() - 2));
    if (!n || !(*n >= 0 && *n <= 1e18)) {
      r.error(key, in_quotes(key) + " must be bytes per second, as in \"2.8GB/s\"");
      return false;
    }
    into = *n;
    return true;
  }

  // A list of tables.
  template <class F>
  void each(table_reader& in, std::string_view key, F&& f) {
    const auto* v = in.take(key);
    if (!v) return;
    const auto* list = v->array();
    const auto is_table = [](const document_value& e) { return e.table() != nullptr; };
    if (!list || !std::all_of(list->begin(), list->end(), is_table))
      return in.error(key, in_quotes(key) + " must be a list of tables: [[" + std::string(key) + "]]");
    for (const auto& e : *list) {
      table_reader r(*e.table(), "a " + std::string(key), e.at, errors_);
      f(r);
      r.finish();
    }
  }

  std::optional<std::uint32_t> node(table_reader& r, std::string_view key) {
    std::int64_t n = 0;
    if (!r.take(key)) r.error(key, "it needs a " + std::string(key) + ", counted from 1");
    if (!r.integer(key, n, 1, max_nodes)) return std::nullopt;
    spec_.nodes_named.emplace_back(static_cast<std::uint32_t>(n - 1), r.at(key));
    return static_cast<std::uint32_t>(n - 1);
  }

  void node_list(table_reader& r, std::vector<std::uint32_t>& into) {
    const auto* v = r.take("nodes");
    if (!v) return;
    const auto* list = v->array();
    for (std::size_t i = 0; list && i < list->size(); ++i) {
      const auto* n = std::get_if<std::int64_t>(&(*list)[i].value);
      if (!n || *n < 1 || *n > max_nodes) {
        return r.error_at((*list)[i].at, "'nodes' must be a list of node numbers, counted from 1");
      }
      into.push_back(static_cast<std::uint32_t>(*n - 1));
      spec_.nodes_named.emplace_back(into.back(), (*list)[i].at);
    }
    if (!list || into.empty()) r.error("nodes", "'nodes' must be a list of node numbers, counted from 1");
  }

  void read_run(table_reader& r) {
    auto& run = spec_.run.emplace();
    if (!r.take("job")) r.error("job", "it needs a job, the job file");
    if (r.text("job", run.job)) run.job = relative_to(spec_.file, run.job);
    std::int64_t nodes = 0;
    if (!r.take("nodes")) r.error("nodes", "it needs nodes, the number of nodes");
    if (r.integer("nodes", nodes, 1, max_nodes)) run.nodes = static_cast<std::uint32_t>(nodes);
    std::int64_t n = 0;
    if (r.integer("steps", n, 1, INT64_MAX)) run.steps = n;
    if (r.integer("seed", n, 0, INT64_MAX)) run.seed = n;
    if (r.integer("buckets", n, 0, 4096)) run.buckets = n;
    r.word("maths", run.maths, {"real", "none"});
    r.texts("set", run.set);
    r.finish();
  }

  void read_network(table_reader& r) {
    spec_.has_network = true;
    auto& n = spec_.network;
    std::string fabric = "star";
    if (!r.take("fabric")) r.error("fabric", "it needs a fabric: uniform, star or tree");
    if (!r.word("fabric", fabric, {"uniform", "star", "tree"})) return r.forgive();
    time(r, "local", n.local);
    rate(r, "bandwidth", n.bytes_per_second);
    if (fabric == "uniform") {
      n.fabric = sim::fabric_kind::uniform;
      time(r, "least", n.least);
      time(r, "most", n.most);
      if (n.most < n.least) r.error("most", "'most' is less than 'least'");
      r.flag("shuffle_local", n.shuffle_local);
      return r.finish();
    }
    n.fabric = fabric == "tree" ? sim::fabric_kind::tree : sim::fabric_kind::star;
    n.latency = {};
    time(r, "latency", n.latency);
    time(r, "jitter", n.jitter);
    std::string switching = "cut_through";
    r.word("switching", switching, {"cut_through", "store_and_forward"});
    n.cut_through = switching == "cut_through";
    std::string duplex = "full";
    r.word("duplex", duplex, {"full", "half"});
    n.full_duplex = duplex == "full";
    each(r, "link", [&](table_reader& l) {
      double rate_of = 0;
      const auto at = node(l, "node");
      if (!l.take("bandwidth")) l.error("bandwidth", "it needs a bandwidth");
      if (rate(l, "bandwidth", rate_of) && at) n.node_bytes_per_second.emplace_back(*at, rate_of);
    });
    if (n.fabric == sim::fabric_kind::tree) {
      std::int64_t rack = n.rack;
      if (!r.take("rack")) r.error("rack", "it needs rack, the number of nodes per rack");
      if (r.integer("rack", rack, 1, max_nodes)) n.rack = static_cast<std::uint32_t>(rack);
      const bool given = rate(r, "uplink_bandwidth", n.uplink_bytes_per_second);
      if (r.real("oversubscription", n.oversubscription, 1e-3, 1e6) && given)
        r.error("oversubscription", "give 'uplink_bandwidth' or 'oversubscription', not both");
    }
    r.finish();
  }

  void read_compute(table_reader& r) {
    spec_.has_compute = true;
    auto& c = spec_.compute;
    r.flag("measure", spec_.measure);
    r.real("examples_per_second", spec_.examples_per_second, 1e-9, 1e15);
    r.real("flops_per_second", c.flops_per_second, 0, 1e21);
    rate(r, "bytes_per_second", c.bytes_per_second);
    time(r, "floor", c.floor);
    std::int64_t cores = c.cores;
    if (r.integer("cores", cores, 1, 4096)) c.cores = static_cast<unsigned>(cores);
    const int ways = (spec_.measure ? 1 : 0) + (spec_.examples_per_second > 0 ? 1 : 0) + (r.take("flops_per_second") ? 1 : 0);
    if (ways > 1) r.error("examples_per_second", "give one of 'measure', 'examples_per_second' and 'flops_per_second'");
    if (auto s = r.table("stragglers", "[compute.stragglers]")) {
      std::string kind;
      if (!s->take("kind")) s->error("kind", "it needs a kind: lognormal or exponential");
      if (s->word("kind", kind, {"lognormal", "exponential"}))
        c.kind = kind == "lognormal" ? sim::straggle::lognormal : sim::straggle::exponential;
      if (!s->take("spread")) s->error("spread", "it needs a spread");
      s->real("spread", c.spread, 0, 100);
      s->real("probability", c.probability, 0, 1);
      s->finish();
    }
    each(r, "slow", [&](table_reader& s) {
      double factor = 1;
      const auto at = node(s, "node");
      if (!s.take("factor")) s.error("factor", "it needs a factor on the time of its tasks");
      if (s.real("factor", factor, 1e-3, 1e6) && at) c.slow.emplace_back(*at, factor);
    });
    r.finish();
  }

  void read_fault(table_reader& r) {
    spec_.has_faults = true;
    std::string kind;
    if (!r.take("kind")) {
      r.error("kind", "it needs a kind: " + joined(fault_kinds));
      return r.forgive();
    }
    if (!r.word("kind", kind, fault_kinds)) return r.forgive();
    r.rename("a fault of kind " + kind);
    sim::fault f;
    f.kind = static_cast<fault_kind>(std::find(fault_kinds.begin(), fault_kinds.end(), kind) - fault_kinds.begin());
    time(r, "from", f.from);
    const bool ends = time(r, "until", f.until);
    if (f.until < f.from) r.error("until", "'until' is before 'from'");
    node_list(r, f.nodes);
    const bool named = r.take("nodes") != nullptr;
    const bool drawn = f.kind <= fault_kind::drop;
    if (drawn) {
      if (!r.take("probability")) r.error("probability", "it needs a probability");
      r.real("probability", f.probability, 0, 1);
    }
    if (f.kind == fault_kind::drop && f.probability >= 1 && !ends)
      r.error("probability", "with a probability of 1 and no 'until' every message would be dropped");
    if (f.kind == fault_kind::delay || f.kind == fault_kind::reorder) read_spread(r, f);
    if (f.kind == fault_kind::duplicate) {
      std::string where = "wire";
      r.word("where", where, {"wire", "role"});
      f.above = where == "role";
    }
    if (f.kind == fault_kind::partition) {
      if (!named) r.error("nodes", "it needs nodes, the nodes of one side");
      if (!ends) r.error("until", "it needs an end, 'until'");
    }
    if (f.kind == fault_kind::slow || f.kind == fault_kind::slow_disk) {
      if (!named) r.error("nodes", "it needs nodes");
      if (!r.take("factor"))
        r.error("factor", "it needs a factor on the time of " + std::string(kind == "slow" ? "tasks" : "checkpoints"));
      r.real("factor", f.factor, 1e-3, 1e6);
    }
    if (f.kind == fault_kind::skew) read_skew(r, f, named, ends);
    if (f.kind == fault_kind::crash) read_crash(r, f, named, ends);
    spec_.faults.list.push_back(std::move(f));
  }

  void read_skew(table_reader& r, sim::fault& f, bool named, bool ends) {
    if (!named) r.error("nodes", "it needs nodes");
    if (ends || f.from != duration{})
      r.error(ends ? "until" : "from", "a clock skew lasts for the whole run: remove 'from' and 'until'");
    time(r, "ahead", f.least);
    if (!r.real("rate", f.factor, 0.5, 2) && f.least == duration{}) r.error("rate", "it needs a rate, 'ahead', or both");
  }

  void read_crash(table_reader& r, sim::fault& f, bool named, bool ends) {
    time(r, "restart_after", f.restart_after);
    std::vector<std::string> roles;
    if (r.texts("roles", roles) && named) r.error("roles", "give 'nodes' or 'roles', not both");
    for (std::size_t i = 0; i < roles.size(); ++i) spec_.roles_named.push_back({spec_.faults.list.size(), roles[i], r.at("roles")});
    std::int64_t times = 1;
    const bool counted = r.integer("times", times, 1, 100000);
    if (counted) f.times = static_cast<std::uint32_t>(times);
    read_groups(r, f, named || !roles.empty());
    const bool rate = read_arrival(r, f);
    std::string trace;
    const bool traced = r.text("trace", trace);
    if (traced) read_trace(r, trace, f);
    if (rate + traced + counted > 1) r.error(rate ? "every" : "trace", "give one of 'times', 'every' and 'trace'");
    if (rate && !ends) r.error("until", "it needs an end, 'until'");
    if (rate && !roles.empty()) r.error("every", "'every' is for nodes only: give 'times' for roles");
    if (!rate && !traced && !r.take("from"))
      r.error("from", "it needs 'from' (the time of the crash, or with 'until' the earliest time), 'every' or 'trace'");
  }

  // every = { kind = "weibull", mean = "500h", shape = 0.7 }: the time to the next crash of a node
  // or group, measured from its last start.
  bool read_arrival(table_reader& r, sim::fault& f) {
    auto e = r.table("every", "'every'");
    if (!e) return false;
    std::string kind = "exponential";
    e->word("kind", kind, {"exponential", "weibull"});
    f.when = kind == "weibull" ? sim::crash_times::weibull : sim::crash_times::exponential;
    if (!e->take("mean")) e->error("mean", "it needs a mean, the mean time between crashes of a node");
    duration mean{};
    if (time(*e, "mean", mean) && mean.count() <= 0) e->error("mean", "'mean' must be greater than 0");
    f.mean = seconds_of(mean);
    if (f.when == sim::crash_times::weibull) {
      if (!e->take("shape")) e->error("shape", "it needs a shape: 1 is exponential, below 1 crashes are clustered");
      e->real("shape", f.shape, 0.1, 100);
    }
    e->finish();
    return true;
  }

  void read_groups(table_reader& r, sim::fault& f, bool named) {
    std::int64_t rack = 0;
    if (r.integer("rack", rack, 1, max_nodes)) f.rack = static_cast<std::uint32_t>(rack);
    const auto* v = r.take("groups");
    const auto wrong = [&](source_position at) {
      r.error_at(at, "'groups' must be a list of lists of node numbers, counted from 1");
    };
    if (v && !v->array()) wrong(v->at);
    for (std::size_t i = 0; v && v->array() && i < v->array()->size(); ++i) {
      const auto& one = (*v->array())[i];
      auto& group = f.groups.emplace_back();
      for (std::size_t k = 0; one.array() && k < one.array()->size(); ++k) {
        const auto& e = (*one.array())[k];
        const auto* n = std::get_if<std::int64_t>(&e.value);
        if (!n || *n < 1 || *n > max_nodes) return wrong(e.at);
        group.push_back(static_cast<std::uint32_t>(*n - 1));
        spec_.nodes_named.emplace_back(group.back(), e.at);
      }
      if (group.empty()) return wrong(one.at);
    }
    if (f.rack > 0 && v) r.error("groups", "give 'rack' or 'groups', not both");
    if ((f.rack > 0 || v) && named) r.error(v ? "groups" : "rack", "give nodes or roles, or groups, but not both");
  }

  void read_trace(table_reader& r, const std::string& name, sim::fault& f) {
    f.when = sim::crash_times::moments;
    const auto file = relative_to(spec_.file, name);
    auto text = read_text(file);
    if (!text) return r.error("trace", text.error().front().to_string());
    auto read = parse_fault_trace(*text, file);
    if (!read) return errors_.push_back(read.error().front());
    for (auto& c : *read) {
      f.moments.push_back(c.what);
      spec_.nodes_named.emplace_back(c.what.node, std::move(c.at));
    }
  }

  void read_spread(table_reader& r, sim::fault& f) {
    time(r, "least", f.least);
    if (!r.take("most")) r.error("most", "it needs 'most', the longest delay");
    time(r, "most", f.most);
    if (f.most < f.least) r.error("most", "'most' is less than 'least'");
  }

  diagnostics errors_;
  table_reader root_;
  sim_spec spec_;
};

}  // namespace

expected<sim_spec, diagnostics> parse_sim(const std::string& text, const std::string& file) {
  auto doc = parse_document(text, file);
  if (!doc) return unexpected(std::move(doc).error());
  return sim_reader(*doc, file).read();
}

expected<sim_spec, diagnostics> read_sim_file(const std::string& path) {
  auto text = read_text(path);
  if (!text) return unexpected(std::move(text).error());
  return parse_sim(*text, path);
}

bool is_scenario(const std::string& path) {
  const auto text = read_text(path);
  if (!text) return false;
  const auto root = parse_document(*text, path);
  return root && find_entry(*root, "run");
}

diagnostics check_nodes(const sim_spec& s, std::uint32_t nodes) {
  diagnostics list;
  for (const auto& [node, at] : s.nodes_named)
    if (node >= nodes)
      list.push_back({at, "there is no node " + std::to_string(node + 1) + ": the cluster has " + std::to_string(nodes)});
  return list;
}

diagnostics find_roles(sim_spec& s, const job_plan& p) {
  diagnostics list;
  for (const auto& [fault, name, at] : s.roles_named) {
    const auto role = std::find_if(p.roles.begin(), p.roles.end(), [&, &n = name](const role_plan& r) { return r.name == n; });
    if (role == p.roles.end()) {
      list.push_back({at, "there is no role '" + name + "' (`troupe plan` lists them)"});
      continue;
    }
    if (!role->does().passes_packets || role->tester || !p.placed)
      list.push_back(
          {at, "'" + name + "' cannot crash without its node: only stages, loaders and workers of jobs with placed layers can"});
    s.faults.list[fault].roles.push_back(role->id);
  }
  return list;
}

}  // namespace troupe
