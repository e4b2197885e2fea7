#include "runtime/node/config/sim_file.hpp"

#include <algorithm>
#include <unordered_map>

#include "runtime/base/wording.hpp"
#include "runtime/node/config/document.hpp"
#include "runtime/node/config/fault_table.hpp"
#include "runtime/node/config/plugin_list.hpp"
#include "runtime/node/config/table_reader.hpp"
#include "runtime/spec/mistakes.hpp"

namespace troupe {
namespace {

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
