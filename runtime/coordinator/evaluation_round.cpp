#include "runtime/coordinator/evaluation_round.hpp"

#include <algorithm>
#include <utility>

namespace troupe {

verdict verdict_of(const model_graph& g, const scalars& means) {
  verdict v;
  v.loss = loss_of(g, means);
  for (const auto& [name, value] : means)
    for (const auto& l : g.layers) {
      if (l.name != name || !l.maths->is_metric()) continue;
      if (l.maths->more_is_better() && !v.accuracy)
        v.accuracy = value;
      else
        v.others.emplace_back(name, value);
    }
  return v;
}

void evaluation_round::begin(std::uint64_t step, std::optional<std::uint64_t> of, bool by_tester, report_sheet reports,
                             bool continues) {
  if (!continues) before_ = past_;
  ++past_.rounds;
  past_.evaluated = step;
  evaluating_step_ = of;
  by_tester_ = by_tester;
  sheet_ = std::move(reports);
}

std::optional<report_sheet> evaluation_round::take(std::uint32_t packet, std::uint32_t first_layer, report r) {
  if (!sheet_ || !sheet_->take(packet, first_layer, std::move(r)) || !sheet_->complete()) return std::nullopt;
  return std::exchange(sheet_, std::nullopt);
}

void evaluation_round::record_result(std::optional<double> accuracy) {
  evaluated_step_ = evaluating_step_;
  if (accuracy) past_.accuracy = *accuracy;
}

void evaluation_round::skip_to(std::uint64_t step) { past_.evaluated = std::max(past_.evaluated, step); }

}  // namespace troupe
