#include "apps/troupe_summary.hpp"

#include <algorithm>
#include <cmath>

#include "apps/troupe_output.hpp"
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

void run_summary::event(const event_effect& e) {
  improved_ = false;
  if (const auto* s = e.as<step_event>()) {
    if (!std::isfinite(s->loss)) return;  // of a skipped step
    losses_.add(s->loss);
    last_ = at_step{s->loss, e.step};
    if (!first_) first_ = last_;
    if (!lowest_ || s->loss < lowest_->value) lowest_ = last_;
  } else if (const auto* v = e.as<eval_event>()) {
    if (const auto& a = v->accuracy; a && std::isfinite(*a) && (!accuracy_ || *a > accuracy_->value)) {
      improved_ = accuracy_.has_value();
      accuracy_ = at_step{*a, e.step};
    }
    if (std::isfinite(v->loss) && (!eval_loss_ || v->loss < eval_loss_->value)) eval_loss_ = at_step{v->loss, e.step};
  }
}

std::string run_summary::text(const screen& s, double examples, double seconds, const run_ending& end) const {
  std::string out;
  const auto add = [&](const char* label, const std::string& text) { out += labelled(s, label, text); };
  const auto at = [](const at_step& x) { return fixed(x.value, 4) + " at step " + with_commas(x.step); };
  if (first_ && last_->step > first_->step) {
    const auto room = s.redraws ? std::clamp<std::size_t>(screen::columns() / 4, 10, curve_columns) : curve_columns;
    add("loss", sparkline(losses_.values(), room, writes_utf8()) + "  first " + fixed(first_->value, 4) + ", last " +
                    fixed(last_->value, 4) + ", lowest " + at(*lowest_));
  }
  if (!first_)
    ;  // nothing was trained: the only evaluation has been printed
  else if (accuracy_)
    add("accuracy", "best " + at(*accuracy_));
  else if (eval_loss_)
    add("test loss", "best " + at(*eval_loss_));
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
