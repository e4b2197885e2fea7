#include "runtime/node/config/fault_table.hpp"

#include <charconv>
#include <cmath>
#include <utility>

#include "runtime/base/wording.hpp"
#include "runtime/node/config/document.hpp"
#include "runtime/node/config/fault_trace.hpp"
#include "runtime/node/config/plugin_list.hpp"

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

}  // namespace

void read_fault(table_reader& r, sim_spec& into, diagnostics& errors) { fault_reader(r, into, errors).read(); }

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

}  // namespace troupe
