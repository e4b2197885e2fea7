// The stock schedules. Steps count from 0. The names are those of SINGA v0.2 and Caffe.
//   fixed        base
//   step         base factor^floor(step / every)
//   fixed_step   base times the factors of all `at` <= step     Caffe: multistep
//   plateau      base, which the coordinator lowers when evaluations stop improving
//   linear       base + (final - base) step / steps, then final
//   exponential  base factor^(step / every)                     SINGA: factor 1/2
//   inverse      base (1 + gamma step)^-power                   Caffe: inv
//   inverse_t    base / (1 + step / t)                          SINGA calls t final_lr
//   poly         base (1 - step / steps)^power, then 0          Caffe: poly
//   cosine       final + (base - final) (1 + cos(pi step / steps)) / 2, then final
//   cosine_restarts  the same again and again: the period grows by `growth` at each restart
#include "ops/schedule.hpp"

#include <cmath>
#include <numbers>
#include <utility>
#include <vector>

#include "ops/option_specs.hpp"

namespace troupe {

namespace {

template <class F>
struct schedule_of final : schedule {
  F f;
  explicit schedule_of(F g) : f(std::move(g)) {}
  double lr(double base, std::uint64_t step) const override { return f(base, step); }
};
template <class F>
std::unique_ptr<schedule> schedule_from(F f) {
  return std::make_unique<schedule_of<F>>(std::move(f));
}

std::uint64_t whole(const options& o, const char* key) { return static_cast<std::uint64_t>(o.integer(key)); }

schedule_type fixed() {
  return {.name = "fixed", .doc = "lr = base", .specs = {}, .make = [](const options&) {
            return schedule_from([](double base, std::uint64_t) { return base; });
          }};
}

// The coordinator changes the base rate after evaluations (runtime/coordinator/rate_plateau.hpp).
schedule_type plateau() {
  return {
      .name = "plateau",
      .doc =
          "lr = base, which is multiplied by `factor` after `patience` consecutive evaluations without an improvement. Needs "
          "[eval] every and test data",
      .specs = {integer_option("patience", 3, "number of consecutive evaluations without an improvement that lower the rate", 1),
                real_option("factor", 0.1, "factor on the rate at each change", 0.0, 1.0),
                real_option("threshold", 0.0, "an evaluation is an improvement if it is better than the best by more than this",
                            0.0),
                real_option("least", 0.0, "the rate is not lowered below this", 0.0),
                choice_option("measure", {"auto", "accuracy", "loss"},
                              "metric that must improve; auto: the accuracy if the model has one, else the loss")},
      .make = [](const options&) { return schedule_from([](double base, std::uint64_t) { return base; }); }};
}

schedule_type step_type() {
  return {.name = "step",
          .doc = "lr = base factor^floor(step / every)",
          .specs = {required_integer("every", "number of steps between two changes"),
                    real_option("factor", 0.1, "factor on the rate at each change", 0.0)},
          .make = [](const options& o) {
            return schedule_from([every = whole(o, "every"), factor = o.real("factor")](double base, std::uint64_t step) {
              // No pow(): the same bits on every machine.
              for (std::uint64_t i = 0; i < step / every && base != 0.0; ++i) base *= factor;
              return base;
            });
          }};
}

std::unique_ptr<schedule> make_fixed_step(const options& o) {
  std::vector<std::pair<std::uint64_t, double>> changes;
  const auto& factors = o.get<std::vector<double>>("factors");
  for (const auto at : o.get<std::vector<std::int64_t>>("at")) {
    if (!changes.empty() && static_cast<std::uint64_t>(at) <= changes.back().first)
      throw option_error("at", "option 'at' must list steps in ascending order");
    changes.emplace_back(at, o.real("factor"));
  }
  if (changes.empty()) throw option_error("at", "option 'at' must list at least one step");
  if (!factors.empty() && factors.size() != changes.size())
    throw option_error("factors", "option 'factors' must list one factor for each step of 'at': " + std::to_string(changes.size()) +
                                      ", not " + std::to_string(factors.size()));
  for (std::size_t i = 0; i < factors.size(); ++i) changes[i].second = factors[i];
  return schedule_from([changes = std::move(changes)](double base, std::uint64_t step) {
    for (const auto& [at, factor] : changes)
      if (step >= at) base *= factor;
    return base;
  });
}

schedule_type fixed_step() {
  return {
      .name = "fixed_step",
      .doc = "lr = base times the factors of all steps in `at` that have been reached",
      .specs = {bounded(option_of("at", option_kind::integers, std::nullopt, "steps at which the rate changes, in ascending order"),
                        0, 1e15),
                real_option("factor", 0.1, "factor on the rate at each change", 0.0),
                bounded(option_of("factors", option_kind::reals, std::vector<double>{},
                                  "one factor for each step of `at`; replaces `factor`"),
                        0.0)},
      .make = make_fixed_step};
}

schedule_type linear() {
  return {.name = "linear",
          .doc = "lr = base + (final - base) step / steps, and final from step `steps` on",
          .specs = {required_integer("steps", "number of steps until the rate is `final`"),
                    real_option("final", 0.0, "final rate, an absolute value", 0.0)},
          .make = [](const options& o) {
            return schedule_from([steps = whole(o, "steps"), final = o.real("final")](double base, std::uint64_t step) {
              if (step >= steps) return final;
              const double done = static_cast<double>(step) / static_cast<double>(steps);
              return (1.0 - done) * base + done * final;
            });
          }};
}

schedule_type exponential() {
  return {.name = "exponential",
          .doc = "lr = base factor^(step / every)",
          .specs = {required_integer("every", "number of steps in which the rate changes by `factor`"),
                    real_option("factor", 0.5, "factor on the rate per `every` steps", 0.0)},
          .make = [](const options& o) {
            return schedule_from(
                [every = static_cast<double>(o.integer("every")), factor = o.real("factor")](double base, std::uint64_t step) {
                  return base * std::pow(factor, static_cast<double>(step) / every);
                });
          }};
}

schedule_type inverse() {
  return {.name = "inverse",
          .doc = "lr = base (1 + gamma step)^-power",
          .specs = {real_option("gamma", 0.0001, "rate of decay per step", 0.0), real_option("power", 0.75, "exponent", 0.0)},
          .make = [](const options& o) {
            return schedule_from([gamma = o.real("gamma"), power = o.real("power")](double base, std::uint64_t step) {
              return base * std::pow(1.0 + gamma * static_cast<double>(step), -power);
            });
          }};
}

schedule_type inverse_t() {
  return {.name = "inverse_t",
          .doc = "lr = base / (1 + step / t)",
          .specs = {real_option("t", 10000.0, "number of steps until the rate is half of base", 1e-9)},
          .make = [](const options& o) {
            return schedule_from(
                [t = o.real("t")](double base, std::uint64_t step) { return base / (1.0 + static_cast<double>(step) / t); });
          }};
}

schedule_type poly() {
  return {.name = "poly",
          .doc = "lr = base (1 - step / steps)^power, and 0 from step `steps` on",
          .specs = {required_integer("steps", "number of steps until the rate is 0"), real_option("power", 1.0, "exponent", 0.0)},
          .make = [](const options& o) {
            return schedule_from([steps = whole(o, "steps"), power = o.real("power")](double base, std::uint64_t step) {
              if (step >= steps) return 0.0;
              return base * std::pow(1.0 - static_cast<double>(step) / static_cast<double>(steps), power);
            });
          }};
}

// The rate `done` of the way from `base` (0) to `final` (1), along half a period of a cosine.
double cosine_between(double base, double final, double done) {
  return final + (base - final) * 0.5 * (1.0 + std::cos(std::numbers::pi * done));
}

schedule_type cosine() {
  return {.name = "cosine",
          .doc =
              "lr = final + (base - final) (1 + cos(pi step / steps)) / 2, and final from step `steps` on. Loshchilov and Hutter "
              "2017",
          .specs = {required_integer("steps", "number of steps until the rate is `final`"),
                    real_option("final", 0.0, "final rate, an absolute value", 0.0)},
          .make = [](const options& o) {
            return schedule_from([steps = whole(o, "steps"), final = o.real("final")](double base, std::uint64_t step) {
              return step >= steps ? final : cosine_between(base, final, static_cast<double>(step) / static_cast<double>(steps));
            });
          }};
}

schedule_type cosine_restarts() {
  return {
      .name = "cosine_restarts",
      .doc =
          "the cosine schedule, which begins anew at base after `steps` steps; each period is `growth` times as long as the one "
          "before (SGDR). Loshchilov and Hutter 2017",
      .specs = {required_integer("steps", "number of steps of the first period"),
                bounded(integer_option("growth", 1, "factor on the period at each restart"), 1, 1000),
                real_option("final", 0.0, "rate at the end of each period, an absolute value", 0.0)},
      .make = [](const options& o) {
        return schedule_from(
            [first = whole(o, "steps"), growth = whole(o, "growth"), final = o.real("final")](double base, std::uint64_t step) {
              std::uint64_t period = first;
              if (growth == 1) step %= period;
              for (; step >= period; period *= growth) step -= period;
              return cosine_between(base, final, static_cast<double>(step) / static_cast<double>(period));
            });
      }};
}

}  // namespace

void add_stock_schedules(schedule_registry& r) {
  for (auto* make : {fixed, plateau, step_type, fixed_step, linear, exponential, inverse, inverse_t, poly, cosine, cosine_restarts})
    r.add(make());
}

std::unique_ptr<schedule> with_warmup(std::unique_ptr<schedule> inner, std::uint64_t steps, double from, bool prefix) {
  if (steps == 0) return inner;
  return schedule_from(
      [inner = std::shared_ptr<const schedule>(std::move(inner)), steps, from, prefix](double base, std::uint64_t step) {
        const std::uint64_t first = prefix ? steps : 0;  // step of the job at which the schedule begins
        const double full = inner->lr(base, step > first ? step - first : 0);
        if (step >= steps) return full;
        return full * (from + (1.0 - from) * (static_cast<double>(step) / static_cast<double>(steps)));
      });
}

std::unique_ptr<schedule> scaled_by(std::unique_ptr<schedule> inner, double factor) {
  if (factor == 1.0) return inner;
  return schedule_from([inner = std::shared_ptr<const schedule>(std::move(inner)), factor](double base, std::uint64_t step) {
    return factor * inner->lr(base, step);
  });
}

double batch_factor(const std::string& kind, double batch, double base_batch) {
  if (kind == "linear") return batch / base_batch;
  if (kind == "sqrt") return std::sqrt(batch / base_batch);
  return 1.0;
}

}  // namespace troupe
