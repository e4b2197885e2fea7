// Formats a job's events, staleness and layers, as text and as JSON.
#include "actors/repl/columns.hpp"
#include "actors/repl/tables.hpp"
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

std::string joined_texts(const std::vector<std::string>& list) {
  std::string s;
  for (const auto& t : list) s += (s.empty() ? "" : ", ") + t;
  return s;
}

json_object object_of(const repl_layer& l) {
  json_object o{{"name", l.name}, {"type", l.type}, {"inputs", l.inputs}, {"in", l.in}, {"out", l.out}};
  o["phase"] = l.in_train && l.in_test ? "both" : l.in_train ? "train" : "test";
  o["parameters"] = json_object::array();
  for (const auto& p : l.parameters)
    o["parameters"].push_back({{"name", p.name},
                               {"shape", p.shape},
                               {"count", p.count},
                               {"lr_scale", p.lr},
                               {"decay_scale", p.decay},
                               {"trainable", p.trainable}});
  return o;
}

}  // namespace

std::string repl_staleness_text(bool json, const event_effect& e) {
  if (json) return repl_event_json(e);
  const auto entries = staleness_of(e);
  if (entries.empty()) return "no data: no step has used weights yet";
  constexpr std::uint64_t shown = 8;
  std::uint64_t most = 0;
  for (const auto& r : entries) most = std::max(most, r.reads.empty() ? 0 : r.reads.rbegin()->first);
  std::vector<std::string> head = {"parameter", "reads", "mean", "oldest"};
  for (std::uint64_t c = 0; c <= std::min(most, shown - 1); ++c) head.push_back(std::to_string(c));
  if (most >= shown) head.push_back(std::to_string(shown) + "+");
  columns t(head);
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

std::string repl_step_text(const event_effect& e) {
  std::string s = "step " + number(e.step);
  for (const auto& [k, v] : e.values)
    if (k != "step_seconds") s += "  " + k + " " + number(v, k == "examples_per_s" ? "%.0f" : "%.6g");
  return s;
}

std::string repl_moved_text(const event_effect& e) {
  std::string s = e.text + " at step " + number(e.step);
  for (const auto& [k, v] : e.values)
    if (k == "ms") s += " in " + number(v, "%.0f") + " ms";
  return s;
}

std::string repl_layer_text(bool json, const repl_layer& l) {
  if (json) {
    json_object o{{"command", "layer"}};
    o.update(object_of(l));
    return line_of(o);
  }
  std::string s = l.name + ": " + l.type + " of " + joined_texts(l.inputs) + (l.in_train ? "" : ", evaluation only") +
                  (l.in_test ? "" : ", training only") + "\n" + joined_texts(l.in) + "  ->  " + joined_texts(l.out) +
                  " (per packet)";
  if (l.parameters.empty()) return s + "\nno parameters";
  columns t({"parameter", "shape", "elements", "lr x", "decay x"});
  for (const auto& p : l.parameters)
    t.add({p.name, p.shape, number(p.count), number(p.lr), number(p.decay) + (p.trainable ? "" : "  (statistics)")});
  return s + "\n" + t.text();
}

std::string repl_layers_text(bool json, const repl_about& a) {
  if (json) {
    json_object o{{"command", "layer"}, {"layers", json_object::array()}};
    for (const auto& l : a.layers) o["layers"].push_back(object_of(l));
    return line_of(o);
  }
  columns t({"layer", "type", "inputs", "out", "parameters"});
  for (const auto& l : a.layers) {
    std::int64_t n = 0;
    for (const auto& p : l.parameters) n += p.count;
    t.add({l.name, l.type, joined_texts(l.inputs), joined_texts(l.out), number(n)});
  }
  return t.text();
}

std::string to_json(const job_event& e) {
  json_object o{{"event", e.event.kind}};
  if (e.event.kind != "done" && e.event.kind != "error") o["step"] = e.event.step;
  if (e.event.kind == "staleness") {
    o["parameters"] = staleness_object(e.event);
    return line_of(o);
  }
  if (e.event.kind == "mode") {
    std::string name;
    auto options = mode_options(e.event, name);
    o["mode"] = name;
    o["options"] = std::move(options);
    return line_of(o);
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
  return line_of(o);
}

std::string repl_event_json(const event_effect& e) { return to_json({0, e, {}}); }

}  // namespace troupe
