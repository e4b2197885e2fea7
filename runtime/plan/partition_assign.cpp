// Assigns parts of layers to nodes: as the job file specifies, otherwise following the layer's
// input.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "ops/device_descriptors.hpp"
#include "runtime/base/number_text.hpp"
#include "runtime/base/wording.hpp"
#include "runtime/plan/partition.hpp"
#include "runtime/plan/partition_ways.hpp"

namespace troupe {
namespace {

// The position at which a partitioning mistake is reported: the key itself, the list that contains
// it ("place.1"), or another key that determines the layer's parts.
source_position at_key(const layer_spec& s, const std::string& key) {
  for (const auto& k : {key, key.substr(0, key.find('.')), std::string("fraction"), std::string("place"), std::string("partition")})
    if (const auto i = s.key_at.find(k); i != s.key_at.end()) return i->second;
  return s.at;
}

std::string fraction_text(double v) { return general_text(v, 6); }

bool sums_to_1(const std::vector<double>& fraction) {
  return std::abs(std::accumulate(fraction.begin(), fraction.end(), 0.0) - 1.0) <= 1e-6;
}

std::string wrong_sum(const std::vector<double>& fraction) {
  return "fractions must sum to 1, but their sum is " + fraction_text(std::accumulate(fraction.begin(), fraction.end(), 0.0));
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

// Number of units of features that are not cut: the features of one image plane for flatten, of one
// group for grouped convolutions.
std::int64_t units_of(const graph_layer& l) {
  auto unit = features_of(l.out.at(0));
  if (keeps_features(l)) {
    for (const auto& s : l.in) unit = std::gcd(unit, features_of(s));
    for (const auto& s : l.out) unit = std::gcd(unit, features_of(s));
  }
  return unit;
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

  assignment colocated_with_workers() const {
    assignment a;
    for (std::uint32_t w = 0; w < workers_.size(); ++w)
      a.parts.push_back({workers_[w], ranges_[w], {}, {}, static_cast<std::int32_t>(w)});
    a.shares = even(a.parts.size());
    return a;
  }

  struct place {
    std::uint32_t node = 0;
    std::int32_t device = any_device;
  };
  using places = std::vector<place>;

  places places_of(const graph_layer& l) {
    places found;
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
                  " (available: " + joined(names) + ")");
        continue;
      }
      const auto number = static_cast<std::uint32_t>(node - names.begin());
      if (slash == std::string::npos) {
        found.push_back({number, any_device});
        continue;
      }
      const auto& devices = nodes_[number].devices;
      const auto device = listed_device(devices, word.substr(slash + 1));
      if (!device) {
        error(l, key, "place " + in_quotes(word) + ": the devices of node " + in_quotes(*node) + " are " + joined(devices));
        continue;
      }
      found.push_back({number, static_cast<std::int32_t>(*device)});
    }
    return found;
  }

  places of_workers() const {
    places found;
    for (auto n : workers_) found.push_back({n, any_device});
    return found;
  }

  assignment as_told(const graph_layer& l) {
    const auto& s = *l.spec;
    const auto before = errors_.size();
    auto where = places_of(l);
    if (s.auto_fraction && (!where.empty() || s.partition != "batch"))
      error(l, "fraction", "\"auto\" sets the packets of the workers: it needs partition = \"batch\" and no place");
    if (errors_.size() > before) return colocated_with_workers();
    if (s.auto_fraction) return colocated_with_workers();
    if (s.partition == "none" ||
        (!s.key_at.count("partition") && s.partition == "batch" && where.size() == 1 && s.fraction.empty()))
      return alone(l, where);
    const bool colocated = where.empty();
    if (colocated) where = of_workers();
    if (!s.fraction.empty() && s.fraction.size() != where.size())
      error(l, "fraction",
            std::to_string(s.fraction.size()) + " fractions for " + std::to_string(where.size()) +
                (colocated ? " workers" : " places"));
    if (!s.fraction.empty() && !sums_to_1(s.fraction)) error(l, "fraction", wrong_sum(s.fraction));
    if (errors_.size() > before) return colocated_with_workers();
    if (colocated && s.partition == "batch")
      return s.fraction.empty() ? colocated_with_workers() : by_batch(l, where, s.fraction, true);
    const auto shares = s.fraction.empty() ? even(where.size()) : s.fraction;
    if (s.partition == "input") return by_input(l, where, shares);
    return s.partition == "feature" ? by_feature(l, where, shares) : by_batch(l, where, shares, false);
  }

  assignment alone(const graph_layer& l, const places& where) {
    if (where.size() > 1) error(l, "place", "partition = \"none\" takes one place, not " + std::to_string(where.size()));
    if (!l.spec->fraction.empty()) error(l, "fraction", "fraction is set, but the layer is not split");
    return whole_on(where.empty() ? place{workers_.front(), any_device} : where.front());
  }

  assignment whole_on(place p) const {
    assignment a;
    a.kind = split_kind::none;
    a.parts.push_back({p.node, all_packets_, {}, {}, no_worker, p.device});
    a.shares = {1.0};
    a.placed = true;
    return a;
  }

  assignment by_batch(const graph_layer& l, const places& where, const std::vector<double>& shares, bool colocated) {
    const auto counts = share_out(all_packets_.count, shares);
    assignment a;
    a.shares = shares;
    std::uint32_t first = 0;
    for (std::size_t k = 0; k < where.size(); ++k) {
      if (counts[k] < 1)
        error(l, "fraction",
              "part " + std::to_string(k) + " gets none of the " + std::to_string(all_packets_.count) + " packets of a step");
      a.parts.push_back({where[k].node,
                         {first, static_cast<std::uint32_t>(std::max<std::int64_t>(counts[k], 0))},
                         {},
                         {},
                         no_worker,
                         where[k].device});
      first += a.parts.back().packets.count;
    }
    const bool theirs = colocated && std::equal(a.parts.begin(), a.parts.end(), ranges_.begin(), ranges_.end(),
                                                [](const layer_part& p, const packet_range& r) { return p.packets == r; });
    if (theirs)
      for (std::size_t k = 0; k < a.parts.size(); ++k) a.parts[k].worker = static_cast<std::int32_t>(k);
    a.placed = !theirs;
    return a;
  }

  assignment by_feature(const graph_layer& l, const places& where, const std::vector<double>& shares) {
    if (!splits_features(l)) {
      error(l, "partition",
            "a layer of type " + in_quotes(l.type) + " cannot be split by feature (it supports: " + ways_of(l) + ")");
      return colocated_with_workers();
    }
    return cut_features(l, where, shares);
  }

  assignment by_input(const graph_layer& l, const places& where, const std::vector<double>& shares) {
    if (!adds_inputs(l)) {
      error(l, "partition",
            "a layer of type " + in_quotes(l.type) + " cannot be split along its input (it supports: " + ways_of(l) + ")");
      return colocated_with_workers();
    }
    const auto features = features_of(l.in[0]);
    const auto counts = share_out(features, shares);
    assignment a;
    a.kind = split_kind::input;
    a.shares = shares;
    a.placed = true;
    std::int64_t first = 0;
    for (std::size_t k = 0; k < where.size(); ++k) {
      if (counts[k] < 1)
        error(l, "fraction", "part " + std::to_string(k) + " gets none of its input's " + std::to_string(features) + " features");
      const feature_range r{first, first + std::max<std::int64_t>(counts[k], 0)};
      a.parts.push_back({where[k].node, all_packets_, {}, where.size() == 1 ? feature_range{} : r, no_worker, where[k].device});
      first += counts[k];
    }
    return a;
  }

  assignment cut_features(const graph_layer& l, const places& where, const std::vector<double>& shares) {
    const auto units = units_of(l);
    const auto counts = share_out(units, shares);
    const auto width = features_of(l.out.at(0)) / units;
    assignment a;
    a.kind = split_kind::feature;
    a.shares = shares;
    a.placed = true;
    std::int64_t first = 0;
    for (std::size_t k = 0; k < where.size(); ++k) {
      if (counts[k] < 1)
        error(l, "fraction", "part " + std::to_string(k) + " gets none of its " + std::to_string(units) + " features");
      const feature_range r{first * width, (first + std::max<std::int64_t>(counts[k], 0)) * width};
      a.parts.push_back({where[k].node, all_packets_, where.size() == 1 ? feature_range{} : r, {}, no_worker, where[k].device});
      first += counts[k];
    }
    return a;
  }

  // The assignment of a layer without keys of its own: that of its first placed input if the layer
  // can be split in the same way, else whole on the first of the input's nodes.
  assignment as_its_input(const graph_layer& l) {
    for (const auto& in : l.inputs) {
      if (in.layer < 0) continue;
      const auto& from = out_[static_cast<std::size_t>(in.layer)];
      if (!from.placed) continue;
      places where;
      for (const auto& p : from.parts) where.push_back({p.node, p.device});
      if (from.kind == split_kind::batch) return from;
      const bool cut = from.kind == split_kind::feature && keeps_features(l) && min_share(units_of(l), from.shares) > 0;
      return cut ? cut_features(l, where, from.shares) : whole_on(where.front());
    }
    return colocated_with_workers();
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

std::vector<assignment> assign_layers(const job_spec& job, const model_graph& g, const std::vector<node_spec>& nodes,
                                      const std::vector<std::uint32_t>& workers, const std::vector<packet_range>& ranges,
                                      diagnostics& errors) {
  return assigner(job, g, nodes, workers, ranges, errors).run();
}

namespace {

std::vector<double> inverse(const std::vector<double>& speeds) {
  std::vector<double> cost;
  for (auto s : speeds) cost.push_back(1 / s);
  return cost;
}

// The packets of each worker as the job file gives them; empty: evenly. Reports mistakes.
std::vector<std::int64_t> packets_of_file(const job_spec& job, const std::vector<double>& speeds, std::uint32_t packets,
                                          diagnostics& errors) {
  std::vector<std::int64_t> counts;
  for (const auto& l : job.layers) {
    if (!counts.empty() || l.partition != "batch" || !l.place.empty()) continue;
    if (l.fraction.size() != speeds.size()) {
      // "auto": the file has no shares, and those of an earlier plan may be of other workers.
      if (l.auto_fraction) return balanced(packets, inverse(speeds));
      continue;
    }
    counts = share_out(packets, l.fraction);
    std::string wrong = sums_to_1(l.fraction) ? "" : wrong_sum(l.fraction);
    const auto least = std::min_element(counts.begin(), counts.end());
    if (wrong.empty() && *least < 1)
      wrong =
          "part " + std::to_string(least - counts.begin()) + " gets none of the " + std::to_string(packets) + " packets of a step";
    if (wrong.empty()) continue;
    errors.push_back({at_key(l, "fraction"), "layer " + in_quotes(l.name) + ": " + wrong});
    return {};
  }
  return counts;
}

}  // namespace

std::vector<packet_range> worker_ranges(const job_spec& job, const std::vector<double>& speeds, std::uint32_t packets,
                                        diagnostics& errors) {
  const auto counts = packets_of_file(job, speeds, packets, errors);
  const auto workers = static_cast<std::uint32_t>(speeds.size());
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
