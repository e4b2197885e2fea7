#include "runtime/node/config/sim_file.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <unordered_map>
#include <utility>

#include "runtime/base/wording.hpp"
#include "runtime/node/config/document.hpp"
#include "runtime/node/config/fault_trace.hpp"
#include "runtime/node/config/plugin_list.hpp"
#include "runtime/node/config/table_reader.hpp"
#include "runtime/spec/mistakes.hpp"

namespace troupe {
namespace {

using sim::fault_kind;

constexpr double max_seconds = 1e9;

// "1500ms" as nanoseconds; none if the number is not whole.
std::optional<duration> whole_number_of(std::string_view text) {
  std::int64_t n = 0;
  const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), n);
  auto unit = text.substr(static_cast<std::size_t>(end - text.data()));
  while (!unit.empty() && unit.front() == ' ') unit.remove_prefix(1);
  constexpr std::pair<std::string_view, std::int64_t> units[] = {
      {"ns", 1},
      {"us", 1'000},
      {"ms", 1'000'000},
      {"s", 1'000'000'000},
      {"min", 60'000'000'000},
      {"h", 3'600'000'000'000},
      {"d", 86'400'000'000'000},
  };
  for (const auto& [name, factor] : units)
    if (ec == std::errc() && unit == name && n <= INT64_MAX / factor) return duration(n * factor);
  return std::nullopt;
}

// Reads a time with a unit; whole numbers of a unit are exact to the nanosecond. Returns false if
// the key is absent or wrong.
bool read_duration(table_reader& r, std::string_view key, duration& into) {
  double seconds = 0;
  std::string text;
  if (!r.time(key, seconds) || !r.text(key, text)) return false;
  if (!(seconds >= 0 && seconds <= max_seconds)) {
    r.error(key, in_quotes(key) + " is out of range");
    return false;
  }
  into = whole_number_of(text).value_or(duration(static_cast<std::int64_t>(std::llround(seconds * 1e9))));
  return true;
}

// One [[fault]] table of a simulation file (docs/simulation.md).
class fault_reader {
 public:
  fault_reader(table_reader& r, sim_spec& spec, diagnostics& errors) : r_(r), spec_(spec), errors_(errors) {}

  void read() {
    spec_.has_faults = true;
    const std::vector<std::string> kinds(sim::fault_words.begin(), sim::fault_words.end());
    std::string kind;
    if (!r_.take("kind")) {
      r_.error("kind", "it needs a kind: " + joined(kinds));
      return r_.forgive();
    }
    if (!r_.word("kind", kind, kinds)) return r_.forgive();
    r_.rename("a fault of kind " + kind);
    f_.kind = static_cast<fault_kind>(std::find(kinds.begin(), kinds.end(), kind) - kinds.begin());
    read_duration(r_, "from", f_.from);
    ends_ = read_duration(r_, "until", f_.until);
    if (f_.until < f_.from) r_.error("until", "'until' is before 'from'");
    read_nodes("nodes", f_.nodes);
    if (sim::of_the_wire(f_.kind))
      read_wire();
    else if (sim::at_a_moment(f_.kind))
      read_moment();
    else
      read_window();
    spec_.faults.list.push_back(std::move(f_));
  }

 private:
  bool named() { return r_.take("nodes") != nullptr; }
  void need(std::string_view key, const std::string& what) {
    if (!r_.take(key)) r_.error(key, "it needs " + what);
  }

  // --- nodes

  bool read_node(const document_value& v, std::vector<std::uint32_t>& into) {
    const auto* n = std::get_if<std::int64_t>(&v.value);
    const auto* name = std::get_if<std::string>(&v.value);
    if (n && *n >= 1 && *n <= max_sim_nodes) {
      into.push_back(static_cast<std::uint32_t>(*n - 1));
      spec_.nodes_named.emplace_back(into.back(), v.at);
      return true;
    }
    if (!name || name->empty()) return false;
    into.push_back(first_named_node + static_cast<std::uint32_t>(spec_.names_used.size()));
    spec_.names_used.push_back({*name, v.at});
    return true;
  }

  void read_nodes(std::string_view key, std::vector<std::uint32_t>& into) {
    const auto* v = r_.take(key);
    if (!v) return;
    const auto wrong = in_quotes(key) + " must be a list of nodes, as numbers counted from 1 or as names";
    const auto* list = v->array();
    for (std::size_t i = 0; list && i < list->size(); ++i)
      if (!read_node((*list)[i], into)) return r_.error_at((*list)[i].at, wrong);
    if (into.empty()) r_.error(key, wrong);
  }

  void read_groups() {
    std::int64_t rack = 0;
    if (r_.integer("rack", rack, 1, max_sim_nodes)) f_.rack = static_cast<std::uint32_t>(rack);
    const auto* v = r_.take("groups");
    const auto wrong = [&](source_position at) {
      r_.error_at(at, "'groups' must be a list of lists of nodes, as numbers counted from 1 or as names");
    };
    if (v && !v->array()) wrong(v->at);
    for (std::size_t i = 0; v && v->array() && i < v->array()->size(); ++i) {
      const auto& one = (*v->array())[i];
      auto& group = f_.groups.emplace_back();
      for (std::size_t k = 0; one.array() && k < one.array()->size(); ++k)
        if (!read_node((*one.array())[k], group)) return wrong((*one.array())[k].at);
      if (group.empty()) return wrong(one.at);
    }
    if (f_.rack > 0 && v) r_.error("groups", "give 'rack' or 'groups', not both");
    if ((f_.rack > 0 || v) && named()) r_.error(v ? "groups" : "rack", "give 'nodes' or groups, not both");
  }

  // --- faults of the wire

  void read_wire() {
    need("probability", "a probability");
    r_.real("probability", f_.probability, 0, 1);
    if (f_.kind == fault_kind::drop && f_.probability >= 1 && !ends_)
      r_.error("probability", "with a probability of 1 and no 'until' every message would be dropped");
    if (f_.kind == fault_kind::delay || f_.kind == fault_kind::reorder) {
      read_duration(r_, "least", f_.least);
      need("most", "'most', the longest delay");
      read_duration(r_, "most", f_.most);
      if (f_.most < f_.least) r_.error("most", "'most' is less than 'least'");
    }
    if (f_.kind == fault_kind::duplicate) {
      std::string where = "wire";
      r_.word("where", where, {"wire", "role"});
      f_.above = where == "role";
    }
  }

  // --- faults that last from `from` until `until`

  void read_window() {
    const bool partition = f_.kind == fault_kind::partition, cut = f_.kind == fault_kind::cut;
    if (!named()) r_.error("nodes", partition ? "it needs nodes, the nodes of one side" : "it needs nodes");
    if ((partition || cut) && !ends_) r_.error("until", "it needs an end, 'until'");
    if (cut) read_cut();
    if (f_.kind == fault_kind::slow || f_.kind == fault_kind::slow_disk) {
      need("factor", std::string("a factor on the time of ") + (f_.kind == fault_kind::slow ? "tasks" : "checkpoints"));
      r_.real("factor", f_.factor, 1e-3, 1e6);
    }
    if (f_.kind != fault_kind::skew) return;
    if (ends_ || f_.from != duration{})
      r_.error(ends_ ? "until" : "from", "a clock skew lasts for the whole run: remove 'from' and 'until'");
    read_duration(r_, "ahead", f_.least);
    if (!r_.real("rate", f_.factor, 0.5, 2) && f_.least == duration{}) r_.error("rate", "it needs a rate, 'ahead', or both");
  }

  void read_cut() {
    read_nodes("to", f_.to);
    const std::vector<std::string> planes(sim::plane_words.begin(), sim::plane_words.end());
    std::string plane = planes.front();
    r_.word("plane", plane, planes);
    f_.plane = static_cast<sim::fault_plane>(std::find(planes.begin(), planes.end(), plane) - planes.begin());
    r_.flag("both", f_.both_ways);
  }

  // --- faults that hit a node at a moment

  void read_moment() {
    if (f_.kind == fault_kind::stop) {
      need("time", "a time, after which the daemon continues");
      read_duration(r_, "time", f_.restart_after);
    } else {
      read_duration(r_, "restart_after", f_.restart_after);
    }
    if (r_.take("roles"))
      r_.error("roles",
               "a role does not crash without its node: write kind = \"kill\" and 'nodes' with the role's node "
               "(`troupe plan` shows it)");
    std::int64_t times = 1;
    const bool counted = r_.integer("times", times, 1, 100000);
    if (counted) f_.times = static_cast<std::uint32_t>(times);
    read_groups();
    const bool rate = read_arrival();
    std::string trace;
    const bool traced = r_.text("trace", trace);
    if (traced) read_trace(trace);
    if (rate + traced + counted > 1) r_.error(rate ? "every" : "trace", "give one of 'times', 'every' and 'trace'");
    if (rate && !ends_) r_.error("until", "it needs an end, 'until'");
    if (!rate && !traced && !r_.take("from"))
      r_.error("from", "it needs 'from' (the time of the fault, or with 'until' the earliest time), 'every' or 'trace'");
  }

  // every = { kind = "weibull", mean = "500h", shape = 0.7 }: the time to the next fault of a node
  // or group, measured from its last start.
  bool read_arrival() {
    auto e = r_.table("every", "'every'");
    if (!e) return false;
    std::string kind = "exponential";
    e->word("kind", kind, {"exponential", "weibull"});
    f_.when = kind == "weibull" ? sim::crash_times::weibull : sim::crash_times::exponential;
    if (!e->take("mean")) e->error("mean", "it needs a mean, the mean time between faults of a node");
    duration mean{};
    if (read_duration(*e, "mean", mean) && mean.count() <= 0) e->error("mean", "'mean' must be greater than 0");
    f_.mean = seconds_of(mean);
    if (f_.when == sim::crash_times::weibull) {
      if (!e->take("shape")) e->error("shape", "it needs a shape: 1 is exponential, below 1 faults are clustered");
      e->real("shape", f_.shape, 0.1, 100);
    }
    e->finish();
    return true;
  }

  void read_trace(const std::string& name) {
    f_.when = sim::crash_times::moments;
    const auto file = relative_to(spec_.file, name);
    auto text = read_text(file);
    if (!text) return r_.error("trace", text.error().front().to_string());
    auto read = parse_fault_trace(*text, file);
    if (!read) return errors_.push_back(read.error().front());
    for (auto& c : *read) {
      f_.moments.push_back(c.what);
      spec_.nodes_named.emplace_back(c.what.node, std::move(c.at));
    }
  }

  table_reader& r_;
  sim_spec& spec_;
  diagnostics& errors_;
  sim::fault f_;
  bool ends_ = false;
};

// Reads the table and appends the fault to `into`. Mistakes go to `errors`, as those of `r` do.
void read_fault(table_reader& r, sim_spec& into, diagnostics& errors) { fault_reader(r, into, errors).read(); }

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
      read_duration(*r, "latency", d.latency);
      r->finish();
    }
    read_duration(root_, "resend", spec_.faults.resend);
    if (spec_.faults.resend.count() <= 0) root_.error("resend", "'resend' must be greater than 0");
    each(root_, "fault", [&](table_reader& r) { read_fault(r, spec_, errors_); });
    root_.finish();
    std::stable_sort(errors_.begin(), errors_.end(), [](const diagnostic& a, const diagnostic& b) {
      return std::pair(a.at.line, a.at.column) < std::pair(b.at.line, b.at.column);
    });
    if (!errors_.empty()) return unexpected(shown_mistakes(std::move(errors_)));
    return std::move(spec_);
  }

 private:
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
    if (!r.integer(key, n, 1, max_sim_nodes)) return std::nullopt;
    spec_.nodes_named.emplace_back(static_cast<std::uint32_t>(n - 1), r.at(key));
    return static_cast<std::uint32_t>(n - 1);
  }

  void read_run(table_reader& r) {
    auto& run = spec_.run.emplace();
    if (!r.take("job")) r.error("job", "it needs a job, the job file");
    if (r.text("job", run.job)) run.job = relative_to(spec_.file, run.job);
    std::int64_t nodes = 0;
    if (!r.take("nodes")) r.error("nodes", "it needs nodes, the number of nodes");
    if (r.integer("nodes", nodes, 1, max_sim_nodes)) run.nodes = static_cast<std::uint32_t>(nodes);
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
    read_duration(r, "local", n.local);
    rate(r, "bandwidth", n.bytes_per_second);
    if (fabric == "uniform") {
      n.fabric = sim::fabric_kind::uniform;
      read_duration(r, "least", n.least);
      read_duration(r, "most", n.most);
      if (n.most < n.least) r.error("most", "'most' is less than 'least'");
      r.flag("shuffle_local", n.shuffle_local);
      return r.finish();
    }
    n.fabric = fabric == "tree" ? sim::fabric_kind::tree : sim::fabric_kind::star;
    n.latency = {};
    read_duration(r, "latency", n.latency);
    read_duration(r, "jitter", n.jitter);
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
      if (r.integer("rack", rack, 1, max_sim_nodes)) n.rack = static_cast<std::uint32_t>(rack);
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
    read_duration(r, "floor", c.floor);
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

diagnostics find_nodes(sim_spec& s, const std::vector<std::string>& names) {
  diagnostics wrong;
  for (const auto& [node, at] : s.nodes_named)
    if (node >= names.size())
      wrong.push_back({at, "there is no node " + std::to_string(node + 1) + ": the cluster has " + std::to_string(names.size())});
  std::unordered_map<std::string, std::uint32_t> numbers;
  for (std::uint32_t i = 0; i < names.size(); ++i) numbers.emplace(names[i], i);
  std::vector<std::uint32_t> found;
  for (const auto& [name, at] : s.names_used) {
    const auto n = numbers.find(name);
    found.push_back(n == numbers.end() ? 0 : n->second);
    if (n == numbers.end())
      wrong.push_back({at, "there is no node " + in_quotes(name) + " in the cluster" + did_you_mean(name, names)});
  }
  const auto resolve = [&](std::vector<std::uint32_t>& list) {
    for (auto& n : list)
      if (n >= first_named_node) n = found.at(n - first_named_node);
  };
  for (auto& f : s.faults.list) {
    resolve(f.nodes);
    resolve(f.to);
    for (auto& g : f.groups) resolve(g);
  }
  s.names_used.clear();
  return wrong;
}

}  // namespace troupe
