// The stock sync conditions.
//
//   every      `steps` local steps since the last exchange (Platoon's train length; tau of EASGD,
//              Zhang et al. 2015)
//   schedule   as `every`, with a period that changes: periods[0] applies first, periods[i + 1]
//              from step at[i] on
//   drift      the weights have moved by more than `threshold` of their norm, or `at_most` local
//              steps have passed (dynamic averaging, Kamp et al. 2018)
#include "runtime/sync/condition.hpp"

#include <cmath>
#include <limits>
#include <vector>

#include "ops/option_specs.hpp"

namespace troupe {

namespace {

struct every final : sync_condition {
  std::uint64_t steps;
  explicit every(std::uint64_t n) : steps(n) {}
  bool due(const condition_view& now) override { return now.step - now.last_exchange >= steps; }
};

struct period_schedule final : sync_condition {
  std::vector<std::int64_t> periods, at;
  bool due(const condition_view& now) override {
    if (now.step == 0) return false;
    // The step that has just finished is number step - 1. Its period applies, so that an exchange
    // can fall on at[i].
    const auto finished = static_cast<std::int64_t>(now.step - 1);
    std::size_t i = 0;
    while (i < at.size() && finished >= at[i]) ++i;
    return now.step - now.last_exchange >= static_cast<std::uint64_t>(periods[i]);
  }
};

struct drift final : sync_condition {
  double threshold;
  std::uint64_t at_most;
  drift(double t, std::uint64_t n) : threshold(t), at_most(n) {}
  bool needs_drift() const override { return true; }
  bool due(const condition_view& now) override {
    const auto since = now.step - now.last_exchange;
    // A NaN drift comes from NaN weights. It counts as due, so that the exchange exposes them.
    return since > 0 && (!(now.drift <= threshold) || (at_most > 0 && since >= at_most));
  }
};

std::unique_ptr<sync_condition> make_schedule(const options& o) {
  auto made = std::make_unique<period_schedule>();
  made->periods = o.get<std::vector<std::int64_t>>("periods");
  made->at = o.get<std::vector<std::int64_t>>("at");
  if (made->periods.size() != made->at.size() + 1)
    throw option_error("periods", "option 'periods' must list one period more than 'at' lists steps: " +
                                      std::to_string(made->at.size() + 1) + ", not " + std::to_string(made->periods.size()));
  for (std::size_t i = 1; i < made->at.size(); ++i)
    if (made->at[i] <= made->at[i - 1]) throw option_error("at", "option 'at' must list steps in ascending order");
  return made;
}

}  // namespace

void add_stock_conditions(condition_registry& r) {
  r.add({.name = "every",
         .doc = "Exchanges after every `steps` local steps.",
         .specs = {required_integer("steps", "number of local steps between two exchanges")},
         .make = [](const options& o) { return std::make_unique<every>(static_cast<std::uint64_t>(o.integer("steps"))); }});
  r.add({.name = "schedule",
         .doc = "Exchanges after a number of local steps that changes at given steps.",
         .specs = {bounded(option_of("periods", option_kind::integers, std::nullopt, "number of local steps between two exchanges"),
                           1, 1e9),
                   bounded(option_of("at", option_kind::integers, std::vector<std::int64_t>{},
                                     "steps from which the next period applies"),
                           1, 1e15)},
         .make = make_schedule});
  r.add({.name = "drift",
         .doc = "Exchanges when the weights have moved by more than `threshold` of their norm since the last exchange.",
         .specs = {bounded(option_of("threshold", option_kind::real, std::nullopt,
                                     "bound on |w - u| / |u|; u: the weights after the last exchange"),
                           0.0),
                   integer_option("at_most", 0, "maximum number of local steps between two exchanges; 0: no limit")},
         .make = [](const options& o) {
           return std::make_unique<drift>(o.real("threshold"), static_cast<std::uint64_t>(o.integer("at_most")));
         }});
}

double drift_of(double moved_squares, double base_squares) {
  if (moved_squares == 0.0) return 0.0;
  return base_squares == 0.0 ? std::numeric_limits<double>::infinity() : std::sqrt(moved_squares) / std::sqrt(base_squares);
}

}  // namespace troupe
