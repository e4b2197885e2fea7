#include "apps/commands/train/summary.hpp"

#include <algorithm>
#include <cmath>

#include "apps/cli/output.hpp"
#include "runtime/base/printable.hpp"
#include "runtime/base/sparkline.hpp"
#include "runtime/base/wording.hpp"

namespace troupe {
namespace {

constexpr std::size_t series_entries = 512, curve_columns = 40;

}  // namespace

void thinned_series::add(double value) {
  sum_ += value;
  if (++pending_ < each_) return;
  values_.push_back(sum_ / static_cast<double>(each_));
  sum_ = 0, pending_ = 0;
  if (values_.size() < series_entries) return;
  for (std::size_t i = 0; i < series_entries / 2; ++i) values_[i] = (values_[2 * i] + values_[2 * i + 1]) / 2;
  values_.resize(series_entries / 2);
  each_ *= 2;
}

void run_summary::begin_with(const std::optional<best_evaluation>& best) {
  if (best) best_.note(*best);
}

void run_summary::event(const event_effect& e) {
  improved_ = false;
  if (e.is<recovered_event>()) {
    go_back(e.step);
  } else if (const auto* s = e.as<step_event>()) {
    if (last_ && e.step <= last_->step) go_back(e.step - 1);
    if (!std::isfinite(s->loss)) return;  // of a skipped step
    losses_.add(s->loss);
    last_ = at_step{s->loss, e.step};
    if (!first_) first_ = last_;
    lowest_.note({e.step, std::nullopt, s->loss});
  } else if (const auto* v = e.as<eval_event>()) {
    const bool first = !best_.best();
    improved_ = best_.note({e.step, v->accuracy, v->loss}) && !first;
  }
}

void run_summary::go_back(std::uint64_t step) {
  best_.go_back(step);
  lowest_.go_back(step);
}

std::string run_summary::text(const screen& s, double examples, double seconds, const run_ending& end) const {
  std::string out;
  const auto add = [&](const char* label, const std::string& text) { out += labelled(s, label, text); };
  const auto at = [](const at_step& x) { return fixed(x.value, 4) + " at step " + with_commas(x.step); };
  const auto lowest = lowest_.best();  // none: the job went back to its beginning
  if (first_ && last_->step > first_->step) {
    const auto room = s.redraws ? std::clamp<std::size_t>(screen::columns() / 4, 10, curve_columns) : curve_columns;
    add("loss", sparkline(losses_.values(), room, writes_utf8()) + "  first " + fixed(first_->value, 4) + ", last " +
                    fixed(last_->value, 4) + (lowest ? ", lowest " + at({lowest->loss, lowest->step}) : std::string()));
  }
  if (!first_)
    ;  // nothing was trained: the only evaluation has been printed
  else if (const auto best = best_.best())
    add(best->accuracy ? "accuracy" : "test loss", "best " + at({best->accuracy.value_or(best->loss), best->step}));
  if (examples > 0 && seconds > 0)
    add("speed",
        with_commas(static_cast<std::uint64_t>(std::llround(examples / seconds))) + " examples/s on average, with evaluations");
  if (!end.time.empty()) add("time", end.time);
  if (!end.run_folder.empty()) add("run", near_path(end.run_folder));
  for (std::size_t i = 0; i < end.next.size(); ++i)
    out += s.painted(i == 0 ? "next" : "", tint::faint) + std::string(i == 0 ? 8 : 12, ' ') + printable(end.next[i]) + "\n";
  return out;
}

}  // namespace troupe
