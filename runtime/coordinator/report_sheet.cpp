#include "runtime/coordinator/report_sheet.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "runtime/base/invariant.hpp"

namespace troupe {

report_sheet::report_sheet(std::uint32_t packets, std::uint32_t stages, const std::vector<packet_range>& ranges)
    : packets_(packets), missing_(packets * stages) {
  for (const auto& r : ranges) {
    for (auto p = r.first; p < r.first + r.count && p < packets; ++p)
      packets_[p].owner = static_cast<std::uint32_t>(missing_of_.size());
    missing_of_.push_back(r.count * stages);
  }
}

std::optional<std::uint32_t> report_sheet::owner_of(std::uint32_t packet) const {
  if (packet >= packets_.size() || packets_[packet].owner == nobody) return std::nullopt;
  return packets_[packet].owner;
}

bool report_sheet::take(std::uint32_t packet, std::uint32_t first_layer, report r) {
  if (packet >= packets_.size()) return false;
  auto& notified = packets_[packet].by_stage;
  if (std::any_of(notified.begin(), notified.end(), [&](const auto& t) { return t.first == first_layer; })) return false;
  notified.emplace_back(first_layer, std::move(r));
  invariant(missing_ > 0, "a sheet lacks at least the report that it takes");
  --missing_;
  if (const auto worker = owner_of(packet)) --missing_of_[*worker];
  return true;
}

scalars report_sheet::means(const model_graph& g) const {
  scalars means;
  for (const auto& l : g.layers) {
    double sum = 0, weight = 0;
    bool reported = false;
    for (const auto& packet : packets_)
      for (const auto& [stage, r] : packet.by_stage)
        for (std::size_t i = 0; i < r.values.size(); ++i) {
          const auto& [name, value] = r.values[i];
          if (name != l.name) continue;
          const double counted = i < r.weights.size() ? r.weights[i] : r.valid;
          reported = reported || r.valid > 0;
          if (counted == 0) continue;  // none of its labels counts
          sum += value * counted;
          weight += counted;
        }
    if (!reported) continue;
    double mean = 0;
    if (weight > 0)
      mean = sum / weight;
    else if (l.maths->is_loss())
      mean = std::numeric_limits<double>::quiet_NaN();
    means.emplace_back(l.name, mean);
  }
  return means;
}

bool well_formed(const report& r) {
  if (r.weights.empty()) return true;
  if (r.weights.size() != r.values.size()) return false;
  return std::all_of(r.weights.begin(), r.weights.end(), [](double w) { return std::isfinite(w) && w >= 0; });
}

bool reports_in(const model_graph& g, const role_plan& r, bool train) {
  return std::any_of(r.layers.begin(), r.layers.end(), [&](std::uint32_t l) {
    const auto& layer = g.layers[l];
    return (layer.maths->is_loss() || layer.maths->is_metric()) && (train ? layer.in_train : layer.in_test);
  });
}

std::uint32_t reporting_stages(const model_graph& g, const job_plan& p, bool train, bool tester) {
  if (tester) return reports_in(g, p[p.tester_stage], train) ? 1 : 0;
  std::uint32_t stages = 0;
  for (const auto& l : g.layers) {  // each packet passes one part of the layer
    const auto at = std::find_if(p.roles.begin(), p.roles.end(), [&](const role_plan& r) {
      return r.kind == role_kind::stage && !r.tester && !r.layers.empty() && r.layers.front() == l.index;
    });
    if (at != p.roles.end() && reports_in(g, *at, train)) ++stages;
  }
  return stages;
}

double loss_of(const model_graph& g, const scalars& means) {
  double loss = 0;
  for (const auto& l : g.layers)
    for (const auto& [name, value] : means)
      if (name == l.name && l.maths->is_loss()) loss += l.loss_weight * value;
  return loss;
}

}  // namespace troupe
