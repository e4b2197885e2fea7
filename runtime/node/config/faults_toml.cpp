#include "runtime/node/config/faults_toml.hpp"

#include <utility>

#include "runtime/base/number_text.hpp"

namespace troupe {
namespace {

using sim::fault_kind;

// In the largest unit of which it is a whole number.
std::string time_text(duration d) {
  constexpr std::pair<std::int64_t, const char*> units[] = {{1'000'000'000, "s"}, {1'000'000, "ms"}, {1'000, "us"}};
  for (const auto& [unit, name] : units)
    if (d.count() % unit == 0) return std::to_string(d.count() / unit) + name;
  return std::to_string(d.count()) + "ns";
}

class fault_writer {
 public:
  std::string text;

  void line(const char* key, const std::string& value) { text += std::string(key) + " = " + value + "\n"; }
  void word(const char* key, const std::string& value) { line(key, '"' + value + '"'); }
  void time(const char* key, duration d) { word(key, time_text(d)); }
  void nodes(const char* key, const std::vector<std::uint32_t>& list) { line(key, numbers(list)); }
  void table(fault_kind k) {
    if (!text.empty()) text += '\n';
    text += "[[fault]]\n";
    word("kind", sim::text_of(k));
  }
  void window(duration from, duration until) {
    if (from != duration{}) time("from", from);
    if (until != duration::max()) time("until", until);
  }

  static std::string numbers(const std::vector<std::uint32_t>& list) {
    std::string s;
    for (const auto n : list) s += (s.empty() ? "" : ", ") + std::to_string(n + 1);
    return "[" + s + "]";
  }
};

void write_wire(fault_writer& w, const sim::fault& f) {
  w.table(f.kind);
  w.line("probability", number_text(f.probability));
  if (!f.nodes.empty()) w.nodes("nodes", f.nodes);
  w.window(f.from, f.until);
  if (f.kind == fault_kind::delay || f.kind == fault_kind::reorder) {
    w.time("least", f.least);
    w.time("most", f.most);
  }
  if (f.above) w.word("where", "role");
}

void write_happening(fault_writer& w, const sim::happening& h) {
  w.table(h.kind);
  if (sim::at_a_moment(h.kind)) {
    if (h.nodes.size() == 1)
      w.nodes("nodes", h.nodes);
    else
      w.line("groups", "[" + fault_writer::numbers(h.nodes) + "]");
    w.time("from", h.at);
    if (h.length >= duration{}) w.time(h.kind == fault_kind::stop ? "time" : "restart_after", h.length);
    return;
  }
  w.nodes("nodes", h.nodes);
  if (h.kind == fault_kind::cut) {
    if (!h.to.empty()) w.nodes("to", h.to);
    if (h.plane != sim::fault_plane::both) w.word("plane", sim::plane_words[static_cast<std::uint8_t>(h.plane)]);
    if (h.both_ways) w.line("both", "true");
  }
  if (h.kind == fault_kind::slow || h.kind == fault_kind::slow_disk) w.line("factor", number_text(h.factor));
  if (h.kind == fault_kind::skew) {
    w.time("ahead", h.ahead);
    w.line("rate", number_text(h.factor));
    return;
  }
  w.window(h.at, h.length < duration{} ? duration::max() : h.at + h.length);
}

}  // namespace

std::string faults_toml(const std::vector<sim::happening>& list, const sim::fault_model& wire) {
  fault_writer w;
  const sim::fault_model usual;
  if (wire.resend != usual.resend) w.time("resend", wire.resend);
  for (const auto& f : wire.list)
    if (sim::of_the_wire(f.kind)) write_wire(w, f);
  for (const auto& h : list) write_happening(w, h);
  return std::move(w.text);
}

}  // namespace troupe
