#include "runtime/coordinator/report_sheet.hpp"

#include <algorithm>

#include "runtime/base/invariant.hpp"

namespace troupe {

report_sheet::report_sheet(std::uint32_t packets, std::uint32_t stages, const std::vector<packet_range>& ranges)
    : packets_(packets), stages_(stages), missing_(packets * stages) {
  for (const auto& r : ranges) {
    for (auto p = r.first; p < r.first + r.count && p < packets; ++p)
      packets_[p].owner = static_cast<std::uint32_t>(shares_.size());
    shares_.push_back({r, r.count * stages});
  }
}

std::optional<std::uint32_t> report_sheet::owner_of(std::uint32_t packet) const {
  if (packet >= packets_.size() || packets_[packet].owner == nobody) return std::nullopt;
  return packets_[packet].owner;
}

bool report_sheet::take(std::uint32_t packet, std::uint32_t first_layer, report r) {
  if (packet >= packets_.size() || packets_[packet].given_up) return false;
  auto& notified = packets_[packet].by_stage;
  if (std::any_of(notified.begin(), notified.end(), [&](const auto& t) { return t.first == first_layer; })) return false;
  notified.emplace_back(first_layer, std::move(r));
  no_longer_missing(packet, 1);
  return true;
}

void report_sheet::no_longer_missing(std::uint32_t packet, std::uint32_t reports) {
  invariant(missing_ >= reports, "a sheet lacks at least the reports that are taken from it");
  missing_ -= reports;
  if (const auto worker = owner_of(packet)) shares_[*worker].missing -= reports;
}

void report_sheet::give_up_worker(std::uint32_t worker) {
  auto& s = shares_[worker];
  for (auto p = s.range.first; p < s.range.first + s.range.count; ++p) packets_[p].given_up = true;
  invariant(missing_ >= s.missing, "a sheet lacks at least what one worker lacks");
  missing_ -= s.missing;
  s.missing = 0;
}

void report_sheet::give_up_packet(std::uint32_t packet) {
  auto& p = packets_[packet];
  const auto lacking = stages_ - static_cast<std::uint32_t>(p.by_stage.size());
  if (p.given_up || lacking == 0) return;
  p.given_up = true;
  no_longer_missing(packet, lacking);
}

report_sheet report_sheet::emptied() const {
  std::vector<packet_range> ranges;
  for (const auto& s : shares_) ranges.push_back(s.range);
  return {packets(), stages_, ranges};
}

scalars report_sheet::means(const model_graph& g) const {
  scalars means;
  for (const auto& l : g.layers) {
    double sum = 0, weight = 0;
    for (const auto& packet : packets_)
      for (const auto& [stage, r] : packet.by_stage)
        for (const auto& [name, value] : r.values)
          if (name == l.name) {
            sum += value * r.valid;
            weight += r.valid;
          }
    if (weight > 0) means.emplace_back(l.name, sum / weight);
  }
  return means;
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
