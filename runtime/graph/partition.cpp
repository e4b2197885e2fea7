#include "runtime/graph/partition.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <utility>

#include "runtime/graph/wording.hpp"

namespace troupe {
namespace {

// Where in the file a mistake of partitioning is shown: at the key itself, at the list that it is an element of ("place.1"), or at
// whatever other key says how the layer lies.
source_position at_key(const layer_spec& s, const std::string& key) {
  for (const auto& k : {key, key.substr(0, key.find('.')), std::string("fraction"), std::string("place"), std::string("partition")})
    if (const auto i = s.key_at.find(k); i != s.key_at.end()) return i->second;
  return s.at;
}

std::string number_text(double v) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", v);
  return text;
}

bool sums_to_1(const std::vector<double>& fraction) {
  return std::abs(std::accumulate(fraction.begin(), fraction.end(), 0.0) - 1.0) <= 1e-6;
}

std::string wrong_sum(const std::vector<double>& fraction) {
  return "fractions must sum to 1, these sum to " + number_text(std::accumulate(fraction.begin(), fraction.end(), 0.0));
}

bool all_are(const std::vector<distribution>& list, distribution d) {
  return std::all_of(list.begin(), list.end(), [d](distribution x) { return x == d; });
}

// The signature with these inputs and outputs, if there is one.
std::optional<signature> supports(const graph_layer& l, distribution inputs, distribution outputs = distribution::split_1) {
  for (auto& s : l.maths->supported())
    if (all_are(s.inputs, inputs) && all_are(s.outputs, outputs)) return s;
  return std::nullopt;
}

// Each part of the inputs makes the same part of the outputs.
bool keeps_features(const graph_layer& l) { return supports(l, distribution::split_1).has_value(); }
bool splits_features(const graph_layer& l) { return keeps_features(l) || supports(l, distribution::broadcast); }
// Each part of the input makes an addend of the output.
std::optional<signature> adds_inputs(const graph_layer& l) {
  if (l.inputs.size() != 1 || l.out.size() != 1) return std::nullopt;
  return supports(l, distribution::split_1, distribution::partial);
}

std::string ways_of(const graph_layer& l) {
  std::vector<std::string> ways{"none"};
  const auto all = l.maths->supported();
  for (const auto& s : all)
    if (!s.inputs.empty() && all_are(s.inputs, distribution::split_0)) ways.insert(ways.begin(), "batch");
  if (splits_features(l)) ways.emplace_back("feature");
  if (adds_inputs(l)) ways.emplace_back("input");
  return joined(ways);
}

std::int64_t features_of(const shape& s) { return s.rank() >= 2 ? s[1] : 1; }

// Features come in runs that are not cut: a flatten's outputs by image plane, grouped convolutions by group.
std::int64_t units_of(const graph_layer& l) {
  auto unit = features_of(l.out.at(0));
  if (keeps_features(l)) {
    for (const auto& s : l.in) unit = std::gcd(unit, features_of(s));
    for (const auto& s : l.out) unit = std::gcd(unit, features_of(s));
  }
  return unit;
}

feature_range scaled(feature_range r, std::int64_t from, std::int64_t to) {
  if (r.whole()) return r;
  return {r.begin * to / from, r.end * to / from};
}

std::vector<double> even(std::size_t n) { return std::vector<double>(n, 1.0 / static_cast<double>(n)); }

class assigner {
 public:
  assigner(const job_spec& job, const model_graph& g, const std::vector<node_spec>& nodes,
           const std::vector<std::uint32_t>& workers, const std::vector<packet_range>& ranges, diagnostics& errors)
      : g_(g), nodes_(nodes), workers_(workers), ranges_(ranges), errors_(errors) {
    all_packets_ = {0, static_cast<std::uint32_t>(job.pipeline.packets)};
  }

  std::vector<assignment> run() {
    for (const auto& l : g_.layers) out_.push_back(l.spec && said(*l.spec) ? as_told(l) : as_its_input(l));
    return std::move(out_);
  }

 private:
  static bool said(const layer_spec& s) {
    return !s.place.empty() || !s.fraction.empty() || s.partition != "batch" || s.key_at.count("partition");
  }

  void error(const graph_layer& l, const std::string& key, const std::string& message) {
    errors_.push_back({at_key(*l.spec, key), "layer " + in_quotes(l.name) + ": " + message});
  }

  assignment beside_workers() const {
    assignment a;
    for (std::uint32_t w = 0; w < workers_.size(); ++w)
      a.parts.push_back({workers_[w], ranges_[w], {}, {}, static_cast<std::int32_t>(w)});
    a.shares = even(a.parts.size());
    return a;
  }

  std::vector<std::uint32_t> nodes_of(const graph_layer& l) {
    std::vector<std::uint32_t> found;
    std::vector<std::string> names;
    for (const auto& n : nodes_) names.push_back(n.name);
    for (std::size_t i = 0; i < l.spec->place.size(); ++i) {
      const auto& word = l.spec->place[i];
      const auto slash = word.find('/');
      const auto node = std::find(names.begin(), names.end(), word.substr(0, slash));
      const auto key = "place." + std::to_string(i);
      if (node == names.end()) {
        error(l, key,
              "unknown node " + in_quotes(word.substr(0, slash)) + did_you_mean(word.substr(0, slash), names) +
                  " (there is: " + joined(names) + ")");
        continue;
      }
      const auto at = static_cast<std::uint32_t>(node - names.begin());
      const auto& devices = nodes_[at].devices;
      if (slash != std::string::npos && std::find(devices.begin(), devices.end(), word.substr(slash + 1)) == devices.end()) {
        error(l, key,
              "node " + in_quotes(*node) + " has no device " + in_quotes(word.substr(slash + 1)) + " (it has: " + joined(devices) +
                  ")");
        continue;
      }
      found.push_back(at);
    }
    return found;
  }

  assignment as_told(const graph_layer& l) {
    const auto& s = *l.spec;
    const auto before = errors_.size();
    auto nodes = nodes_of(l);
    if (errors_.size() > before) return beside_workers();
    if (s.partition == "none" ||
        (!s.key_at.count("partition") && s.partition == "batch" && nodes.size() == 1 && s.fraction.empty()))
      return alone(l, nodes);
    const bool beside = nodes.empty();
    if (beside) nodes = workers_;
    if (!s.fraction.empty() && s.fraction.size() != nodes.size())
      error(
          l, "fraction",
          std::to_string(s.fraction.size()) + " fractions for " + std::to_string(nodes.size()) + (beside ? " workers" : " places"));
    if (!s.fraction.empty() && !sums_to_1(s.fraction)) error(l, "fraction", wrong_sum(s.fraction));
    if (errors_.size() > before) return beside_workers();
    if (beside && s.partition == "batch") return s.fraction.empty() ? beside_workers() : by_batch(l, nodes, s.fraction, true);
    const auto shares = s.fraction.empty() ? even(nodes.size()) : s.fraction;
    if (s.partition == "input") return by_input(l, nodes, shares);
    return s.partition == "feature" ? by_feature(l, nodes, shares) : by_batch(l, nodes, shares, false);
  }

  assignment alone(const graph_layer& l, const std::vector<std::uint32_t>& nodes) {
    if (nodes.size() > 1) error(l, "place", "partition = \"none\" is one place, not " + std::to_string(nodes.size()));
    if (!l.spec->fraction.empty()) error(l, "fraction", "a fraction of a layer that is not split");
    return whole_on(nodes.empty() ? workers_.front() : nodes.front());
  }

  assignment whole_on(std::uint32_t node) const {
    assignment a;
    a.kind = split_kind::none;
    a.parts.push_back({node, all_packets_, {}, {}, no_worker});
    a.shares = {1.0};
    a.placed = true;
    return a;
  }

  assignment by_batch(const graph_layer& l, const std::vector<std::uint32_t>& nodes, const std::vector<double>& shares,
                      bool beside) {
    const auto counts = share_out(all_packets_.count, shares);
    assignment a;
    a.shares = shares;
    std::uint32_t first = 0;
    for (std::size_t k = 0; k < nodes.size(); ++k) {
      if (counts[k] < 1)
        error(l, "fraction",
              "part " + std::to_string(k) + " gets none of the " + std::to_string(all_packets_.count) + " packets of a step");
      a.parts.push_back({nodes[k], {first, static_cast<std::uint32_t>(std::max<std::int64_t>(counts[k], 0))}, {}, {}, no_worker});
      first += a.parts.back().packets.count;
    }
    const bool theirs = beside && std::equal(a.parts.begin(), a.parts.end(), ranges_.begin(), ranges_.end(),
                                             [](const layer_part& p, const packet_range& r) { return p.packets == r; });
    if (theirs)
      for (std::size_t k = 0; k < a.parts.size(); ++k) a.parts[k].worker = static_cast<std::int32_t>(k);
    a.placed = !theirs;
    return a;
  }

  assignment by_feature(const graph_layer& l, const std::vector<std::uint32_t>& nodes, const std::vector<double>& shares) {
    if (!splits_features(l)) {
      error(l, "partition",
            "a layer of type " + in_quotes(l.type) + " cannot be split by feature (it supports: " + ways_of(l) + ")");
      return beside_workers();
    }
    return cut_features(l, nodes, shares);
  }

  assignment by_input(const graph_layer& l, const std::vector<std::uint32_t>& nodes, const std::vector<double>& shares) {
    if (!adds_inputs(l)) {
      error(l, "partition",
            "a layer of type " + in_quotes(l.type) + " cannot be split along its input (it supports: " + ways_of(l) + ")");
      return beside_workers();
    }
    const auto features = features_of(l.in[0]);
    const auto counts = share_out(features, shares);
    assignment a;
    a.kind = split_kind::input;
    a.shares = shares;
    a.placed = true;
    std::int64_t first = 0;
    for (std::size_t k = 0; k < nodes.size(); ++k) {
      if (counts[k] < 1)
        error(l, "fraction", "part " + std::to_string(k) + " gets none of its input's " + std::to_string(features) + " features");
      const feature_range r{first, first + std::max<std::int64_t>(counts[k], 0)};
      a.parts.push_back({nodes[k], all_packets_, {}, nodes.size() == 1 ? feature_range{} : r, no_worker});
      first += counts[k];
    }
    return a;
  }

  assignment cut_features(const graph_layer& l, const std::vector<std::uint32_t>& nodes, const std::vector<double>& shares) {
    const auto units = units_of(l);
    const auto counts = share_out(units, shares);
    const auto width = features_of(l.out.at(0)) / units;
    assignment a;
    a.kind = split_kind::feature;
    a.shares = shares;
    a.placed = true;
    std::int64_t first = 0;
    for (std::size_t k = 0; k < nodes.size(); ++k) {
      if (counts[k] < 1)
        error(l, "fraction", "part " + std::to_string(k) + " gets none of its " + std::to_string(units) + " features");
      const feature_range r{first * width, (first + std::max<std::int64_t>(counts[k], 0)) * width};
      a.parts.push_back({nodes[k], all_packets_, nodes.size() == 1 ? feature_range{} : r, {}, no_worker});
      first += counts[k];
    }
    return a;
  }

  // Of a layer for which the job says nothing: it stays where its (first placed) input is, if it can be split that way; else it
  // goes to the first of the input's nodes.
  assignment as_its_input(const graph_layer& l) {
    for (const auto& in : l.inputs) {
      if (in.layer < 0) continue;
      const auto& from = out_[static_cast<std::size_t>(in.layer)];
      if (!from.placed) continue;
      std::vector<std::uint32_t> nodes;
      for (const auto& p : from.parts) nodes.push_back(p.node);
      if (from.kind == split_kind::batch) return from;
      const bool cut = from.kind == split_kind::feature && keeps_features(l) && min_share(units_of(l), from.shares) > 0;
      return cut ? cut_features(l, nodes, from.shares) : whole_on(nodes.front());
    }
    return beside_workers();
  }

  static std::int64_t min_share(std::int64_t units, const std::vector<double>& shares) {
    const auto counts = share_out(units, shares);
    return *std::min_element(counts.begin(), counts.end());
  }

  const model_graph& g_;
  const std::vector<node_spec>& nodes_;
  const std::vector<std::uint32_t>& workers_;
  const std::vector<packet_range>& ranges_;
  diagnostics& errors_;
  packet_range all_packets_;
  std::vector<assignment> out_;
};

}  // namespace

packet_range intersection(packet_range a, packet_range b) {
  const auto first = std::max(a.first, b.first);
  const auto end = std::min<std::uint64_t>(std::uint64_t{a.first} + a.count, std::uint64_t{b.first} + b.count);
  return end > first ? packet_range{first, static_cast<std::uint32_t>(end - first)} : packet_range{};
}

std::vector<std::int64_t> share_out(std::int64_t total, const std::vector<double>& fraction) {
  std::vector<std::int64_t> counts(fraction.size(), 0);
  auto left = total;
  for (std::size_t k = 1; k < fraction.size(); ++k) {
    // Not 2 for 0.3 of 10 because 0.3 is a little less than that in binary.
    counts[k] = static_cast<std::int64_t>(std::floor(fraction[k] * static_cast<double>(total) + 1e-9 * static_cast<double>(total)));
    left -= counts[k];
  }
  if (!counts.empty()) counts[0] = left;
  return counts;
}

shape cut(const shape& s, const feature_range& r) {
  shape t = s;
  if (!r.whole()) t.set(1, r.count());
  return t;
}

element_range elements_of(const model_graph& g, std::uint32_t p, const part_layer* part) {
  if (!part) return {0, g.params[p].spec.dims.count()};
  const auto& mine = part->as.params;
  const auto at = std::find(mine.begin(), mine.end(), p);
  return at == mine.end() ? element_range{} : part->elements[static_cast<std::size_t>(at - mine.begin())];
}

feature_range needed(const graph_layer& l, std::size_t input, const layer_part& part) {
  if (!part.inputs.whole()) return part.inputs;
  if (part.features.whole() || !keeps_features(l)) return {};
  return scaled(part.features, features_of(l.out.at(0)), features_of(l.in[input]));
}

feature_range made(const model_graph& g, tensor_ref what, feature_range features) {
  if (features.whole()) return {};
  const auto& l = g.layers[static_cast<std::size_t>(what.layer)];
  return scaled(features, features_of(l.out[0]), features_of(l.out[what.output]));
}

std::pair<feature_range, bool> common(feature_range a, feature_range b) {
  if (a.whole()) return {b, true};
  if (b.whole()) return {a, true};
  const feature_range r{std::max(a.begin, b.begin), std::min(a.end, b.end)};
  return {r, r.begin < r.end};
}

namespace {

// Rows [begin, end) of axis 0.
void take_rows(const param_spec& spec, feature_range rows, part_layer& p) {
  const auto width = spec.dims.count_from(1);
  auto dims = spec.dims;
  dims.set(0, rows.count());
  p.elements.push_back({rows.begin * width, rows.count() * width});
  p.params.push_back(dims);
}

// Columns [begin, end) of axis 1.
void take_columns(const param_spec& spec, feature_range columns, part_layer& p) {
  const auto inner = spec.dims.count_from(2), all = spec.dims.count_from(1);
  auto dims = spec.dims;
  dims.set(1, columns.count());
  p.elements.push_back({columns.begin * inner, dims.count(), columns.count() * inner, all});
  p.params.push_back(dims);
}

void take_all(const param_spec& spec, part_layer& p) {
  p.elements.push_back({0, spec.dims.count()});
  p.params.push_back(spec.dims);
}

void make_addend(const model_graph& g, const graph_layer& l, feature_range inputs, part_layer& p) {
  p.inputs = inputs;
  const auto all = features_of(l.in[0]);
  const bool first = inputs.begin == 0;
  if (auto own = l.maths->addend(inputs.begin, inputs.end, all, first)) p.as.maths = std::move(own);
  p.as.params.clear();
  const auto how = *adds_inputs(l);
  for (std::size_t i = 0; i < l.params.size(); ++i) {
    const auto& spec = g.params[l.params[i]].spec;
    const bool cut_here = i < how.params.size() && how.params[i] == distribution::split_1;
    if (!cut_here && !first) continue;
    p.as.params.push_back(l.params[i]);
    cut_here ? take_columns(spec, scaled(inputs, all, spec.dims[1]), p) : take_all(spec, p);
  }
}

}  // namespace

std::shared_ptr<const part_layer> make_part(const model_graph& g, const graph_layer& l, const layer_part& part) {
  if (part.features.whole() && part.inputs.whole()) return nullptr;
  auto p = std::make_shared<part_layer>();
  p->as = l;
  p->features = part.features;
  for (std::size_t i = 0; i < l.in.size(); ++i) {
    p->needs.push_back(needed(l, i, part));
    p->as.in[i] = cut(l.in[i], p->needs.back());
  }
  if (!part.inputs.whole()) {
    make_addend(g, l, part.inputs, *p);
    return p;
  }
  const auto all = features_of(l.out.at(0));
  if (auto own = l.maths->part(part.features.begin, part.features.end, all)) p->as.maths = std::move(own);
  p->as.out = p->as.maths->infer(p->as.in);
  for (auto q : l.params) {
    const auto& spec = g.params[q].spec;
    spec.slice_axis == 0 ? take_rows(spec, scaled(part.features, all, spec.dims[0]), *p) : take_all(spec, *p);
  }
  return p;
}

std::vector<assignment> assign_layers(const job_spec& job, const model_graph& g, const std::vector<node_spec>& nodes,
                                      const std::vector<std::uint32_t>& workers, const std::vector<packet_range>& ranges,
                                      diagnostics& errors) {
  return assigner(job, g, nodes, workers, ranges, errors).run();
}

std::vector<packet_range> worker_ranges(const job_spec& job, std::uint32_t workers, std::uint32_t packets, diagnostics& errors) {
  std::vector<std::int64_t> counts;
  for (const auto& l : job.layers)
    if (counts.empty() && l.partition == "batch" && l.place.empty() && l.fraction.size() == workers) {
      counts = share_out(packets, l.fraction);
      std::string wrong = sums_to_1(l.fraction) ? "" : wrong_sum(l.fraction);
      const auto least = std::min_element(counts.begin(), counts.end());
      if (wrong.empty() && *least < 1)
        wrong = "part " + std::to_string(least - counts.begin()) + " gets none of the " + std::to_string(packets) +
                " packets of a step";
      if (wrong.empty()) continue;
      errors.push_back({at_key(l, "fraction"), "layer " + in_quotes(l.name) + ": " + wrong});
      counts.clear();
      break;
    }
  std::vector<packet_range> ranges;
  std::uint32_t first = 0;
  for (std::uint32_t w = 0; w < workers; ++w) {
    const auto count = counts.empty() ? packets / workers + (w < packets % workers ? 1 : 0) : static_cast<std::uint32_t>(counts[w]);
    ranges.push_back({first, count});
    first += count;
  }
  return ranges;
}

}  // namespace troupe
