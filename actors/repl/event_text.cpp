// Formats a job's events and its staleness, as text and as JSON.
#include "actors/repl/tables.hpp"
#include "actors/repl/text.hpp"
#include "runtime/base/text_table.hpp"
#include "runtime/coordinator/staleness.hpp"

namespace troupe {

using namespace repl_text;

namespace {

json_object staleness_object(const event_effect& e) {
  auto parameters = json_object::object();
  for (const auto& entry : staleness_of(e)) {
    auto& o = parameters[entry.parameter] = json_object::object();
    for (const auto& [clocks, times] : entry.reads) o[std::to_string(clocks)] = times;
  }
  return parameters;
}

json_object mode_options(const event_effect& e, std::string& name) {
  auto options = json_object::object();
  const auto blank = e.text.find(' ');
  name = e.text.substr(0, blank);
  for (auto at = blank; at != std::string::npos;) {
    const auto end = e.text.find(' ', at + 1);
    const auto pair = e.text.substr(at + 1, end == std::string::npos ? end : end - at - 1);
    if (const auto is = pair.find('='); is != std::string::npos) options[pair.substr(0, is)] = pair.substr(is + 1);
    at = end;
  }
  return options;
}

}  // namespace

std::string repl_staleness_text(bool json, const event_effect& e) {
  if (json) return to_json({0, e, {}});
  const auto entries = staleness_of(e);
  if (entries.empty()) return "no data: no step has used weights yet";
  constexpr std::uint64_t shown = 8;
  std::uint64_t most = 0;
  for (const auto& r : entries) most = std::max(most, r.reads.empty() ? 0 : r.reads.rbegin()->first);
  std::vector<std::string> head = {"parameter", "reads", "mean", "oldest"};
  for (std::uint64_t c = 0; c <= std::min(most, shown - 1); ++c) head.push_back(std::to_string(c));
  if (most >= shown) head.push_back(std::to_string(shown) + "+");
  text_table t(head);
  for (const auto& r : entries) {
    std::vector<std::string> entry = {r.parameter, number(r.count()), number(r.mean(), "%.2f"),
                                      number(r.reads.empty() ? 0 : r.reads.rbegin()->first)};
    std::vector<std::uint64_t> counts(head.size() - entry.size(), 0);
    for (const auto& [clocks, times] : r.reads) counts[std::min(clocks, shown)] += times;
    for (auto n : counts) entry.push_back(number(n));
    t.add(std::move(entry));
  }
  return t.text();
}

std::string repl_moved_text(const event_effect& e) {
  std::string s = e.text + " at step " + number(e.step);
  for (const auto& [k, v] : e.values)
    if (k == "ms") s += " in " + number(v, "%.0f") + " ms";
  return s;
}

nlohmann::ordered_json repl_event_object(const job_event& e) {
  json_object o{{"event", e.event.kind}};
  if (e.event.kind != "done" && e.event.kind != "error") o["step"] = e.event.step;
  if (e.event.kind == "staleness") {
    o["parameters"] = staleness_object(e.event);
    return o;
  }
  if (e.event.kind == "mode") {
    std::string name;
    auto options = mode_options(e.event, name);
    o["mode"] = name;
    o["options"] = std::move(options);
    return o;
  }
  for (const auto& [k, v] : e.event.values) {
    const bool whole = k == "steps" || k == "packets" || k == "tcp_bytes" || k == "skipped";
    if (whole)
      o[k] = static_cast<std::uint64_t>(v);
    else
      o[k] = v;
  }
  for (const auto& [k, v] : e.texts) o[k] = v;
  if (!e.event.text.empty()) o[e.event.kind == "done" ? "how" : "message"] = e.event.text;
  return o;
}

std::string to_json(const job_event& e) { return line_of(repl_event_object(e)); }

}  // namespace troupe
