// Formats layers: shapes, parameters, place, and histograms of weights and gradients.
#include <algorithm>
#include <cmath>
#include <map>

#include "actors/repl/tables.hpp"
#include "actors/repl/text.hpp"
#include "actors/repl/waits.hpp"
#include "runtime/base/sparkline.hpp"
#include "runtime/base/text_table.hpp"
#include "runtime/messages/value_histogram.hpp"

namespace troupe {

using namespace repl_text;

namespace {

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

// --- histograms

struct shown_histogram {
  std::string name;  // "conv1.weight"
  bool gradient = false;
  std::uint64_t step = 0;
  value_histogram values;
  double finite() const { return static_cast<double>(values.count - values.not_finite); }
  double mean() const { return finite() > 0 ? values.sum / finite() : 0; }
  double deviation() const { return finite() > 0 ? std::sqrt(std::max(0.0, values.sum_squares / finite() - mean() * mean())) : 0; }
  double share(std::uint64_t n) const { return values.count > 0 ? static_cast<double>(n) / static_cast<double>(values.count) : 0; }
};

// The newest histograms of the layer's parameters, in their order: weights, then gradient.
std::vector<shown_histogram> histograms_in(const std::vector<repl_event>& said, const repl_layer& l) {
  std::map<std::pair<std::string, bool>, shown_histogram> newest;
  for (const auto& e : said) {
    if (const auto* h = e.what.as<histogram_event>())
      newest[{h->parameter, h->gradient}] = {h->parameter, h->gradient, e.what.step, h->values};
  }
  std::vector<shown_histogram> all;
  for (const auto& p : l.parameters)
    for (const bool gradient : {false, true})
      if (const auto at = newest.find({p.name, gradient}); at != newest.end()) all.push_back(at->second);
  return all;
}

// The counts in `columns` equal parts of [min, max]. The values of a bucket count as spread evenly
// over it.
std::vector<double> equal_parts(const value_histogram& h, std::size_t columns) {
  std::vector<double> parts(columns, 0);
  const auto& limits = histogram_limits();
  const auto width = (h.max - h.min) / static_cast<double>(columns);
  if (!(width > 0)) return parts;
  for (const auto& [index, count] : h.buckets) {
    const auto low = std::max(h.min, index == 0 ? h.min : limits[index - 1u]), high = std::min(h.max, limits[index]);
    const auto part_of = [&](double x) {
      return std::min(columns - 1, static_cast<std::size_t>(std::max(0.0, (x - h.min) / width)));
    };
    const auto first = part_of(low), last = part_of(high);
    for (auto i = first; i <= last; ++i) {
      const auto begin = h.min + width * static_cast<double>(i);
      const auto covered = std::min(high, begin + width) - std::max(low, begin);
      const auto share = high > low && first != last ? std::max(0.0, covered) / (high - low) : 1.0;
      parts[i] += static_cast<double>(count) * share;
    }
  }
  return parts;
}

std::string histogram_text(const shown_histogram& h) {
  constexpr std::size_t width = 32;
  auto text = "range " + general_text(h.values.min, 3) + " |" + bars(equal_parts(h.values, width), true) + "| " +
              general_text(h.values.max, 3) + "  mean " + general_text(h.mean(), 3) + "  std " + general_text(h.deviation(), 3) +
              "  zeros " + general_text(100 * h.share(h.values.zeros), 3) + " %";
  if (h.values.not_finite > 0)
    text += "  not finite " + number(h.values.not_finite) + " (" + general_text(100 * h.share(h.values.not_finite), 3) + " %)";
  return text;
}

json_object object_of(const shown_histogram& h) {
  json_object o{{"name", h.name}, {"of", h.gradient ? "gradient" : "weights"}, {"step", h.step}, {"count", h.values.count}};
  o["zeros"] = h.values.zeros;
  o["not_finite"] = h.values.not_finite;
  o["min"] = h.values.min;
  o["max"] = h.values.max;
  o["mean"] = h.mean();
  o["std"] = h.deviation();
  o["buckets"] = json_object::array();
  for (const auto& [index, count] : h.values.buckets) o["buckets"].push_back({histogram_limits()[index], count});
  return o;
}

// --- places

struct layer_place {
  std::string role, node;
  std::uint64_t step = 0;
  double busy = 0, per_step = 0;  // seconds, of all layers of the stage; per_step 0: unknown
};

std::vector<layer_place> places_of(const repl_view& v, const repl_job& j, const repl_layer& l) {
  std::vector<layer_place> all;
  for (const auto i : roles_with_layer(v, *j.about, l.name)) {
    const auto& r = v.roles[i];
    const auto steps = r.what.status.step > j.about->first_step ? r.what.status.step - j.about->first_step : 0;
    all.push_back({r.what.name, r.node, r.what.status.step, r.what.busy_seconds,
                   steps > 0 ? r.what.busy_seconds / static_cast<double>(steps) : 0});
  }
  return all;
}

}  // namespace

std::string repl_layer_text(bool json, const repl_view& v, const repl_job& j, const repl_layer& l,
                            const std::vector<repl_event>& said, const std::string& note) {
  const auto places = places_of(v, j, l);
  const auto histograms = histograms_in(said, l);
  if (json) {
    json_object o{{"command", "layer"}, {"job", j.id}};
    o.update(object_of(l));
    o["places"] = json_object::array();
    for (const auto& p : places)
      o["places"].push_back({{"role", p.role}, {"node", p.node}, {"step", p.step}, {"busy_s", p.busy}, {"s_per_step", p.per_step}});
    o["histograms"] = json_object::array();
    for (const auto& h : histograms) o["histograms"].push_back(object_of(h));
    if (!note.empty()) o["note"] = note;
    return line_of(o);
  }
  std::string s = l.name + ": " + l.type + " of " + joined_texts(l.inputs) + (l.in_train ? "" : ", evaluation only") +
                  (l.in_test ? "" : ", training only") + "\n" + joined_texts(l.in) + "  ->  " + joined_texts(l.out) +
                  " (per packet)";
  for (const auto& p : places)
    s += "\nin " + p.role + " on " + p.node + ": step " + number(p.step) + ", busy " + repl_duration(p.busy) +
         (p.per_step > 0 ? " (" + repl_duration(p.per_step) + " per step)" : "");
  if (l.parameters.empty()) return s + "\nno parameters";
  text_table t({"parameter", "shape", "elements", "lr x", "decay x"});
  for (const auto& p : l.parameters)
    t.add({p.name, p.shape, number(p.count), number(p.lr), number(p.decay) + (p.trainable ? "" : "  (statistics)")});
  s += "\n" + t.text();
  for (const auto& h : histograms)
    s += "\n" + h.name + (h.gradient ? ", gradient" : "") + ", step " + number(h.step) + "\n  " + histogram_text(h);
  return s + (note.empty() ? "" : "\n" + note);
}

std::string repl_layers_text(bool json, const repl_about& a) {
  if (json) {
    json_object o{{"command", "layer"}, {"layers", json_object::array()}};
    for (const auto& l : a.layers) o["layers"].push_back(object_of(l));
    return line_of(o);
  }
  text_table t({"layer", "type", "inputs", "out", "parameters"});
  for (const auto& l : a.layers) {
    std::int64_t n = 0;
    for (const auto& p : l.parameters) n += p.count;
    t.add({l.name, l.type, joined_texts(l.inputs), joined_texts(l.out), number(n)});
  }
  return t.text();
}

}  // namespace troupe
