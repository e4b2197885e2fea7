// fixed    lr = base
// step     lr = base factor^(step / every), whole steps
// inverse  lr = base (1 + gamma step)^-power            (Caffe's "inv")
#include "ops/schedule.hpp"

#include <cmath>

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

}  // namespace

void add_stock_schedules(schedule_registry& r) {
  r.add({.name = "fixed", .doc = "lr = base", .specs = {}, .make = [](const options&) {
           return schedule_from([](double base, std::uint64_t) { return base; });
         }});
  r.add({.name = "step",
         .doc = "lr = base factor^(step / every), rounded down",
         .specs = {required_integer("every", "steps between two changes"),
                   real_option("factor", 0.1, "what the rate is multiplied with", 0.0)},
         .make = [](const options& o) {
           const auto every = static_cast<std::uint64_t>(o.integer("every"));
           return schedule_from([every, factor = o.real("factor")](double base, std::uint64_t step) {
             for (std::uint64_t i = 0; i < step / every && base != 0.0; ++i) base *= factor;  // no pow: the same on every machine
             return base;
           });
         }});
  r.add({.name = "inverse",
         .doc = "lr = base (1 + gamma step)^-power",
         .specs = {real_option("gamma", 0.0001, "how fast the rate falls", 0.0), real_option("power", 0.75, "its exponent", 0.0)},
         .make = [](const options& o) {
           return schedule_from([gamma = o.real("gamma"), power = o.real("power")](double base, std::uint64_t step) {
             return base * std::pow(1.0 + gamma * static_cast<double>(step), -power);
           });
         }});
}

}  // namespace troupe
