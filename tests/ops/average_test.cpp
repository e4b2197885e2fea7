// Averages of the weights as update rules, against their definitions.
#include "ops/rules/average.hpp"

#include <cmath>
#include <vector>

#include "ops/option_specs.hpp"
#include "ops/tensor_values.hpp"
#include "tests/ops/support.hpp"

namespace troupe::average_cases {
namespace {

constexpr std::int64_t count = 37;

std::unique_ptr<rule> made(const std::string& name, std::optional<average_numbers> n) {
  rule_registry rules;
  add_stock_rules(rules);
  auto r = rules.find(name)->make(check_options({}, rules.find(name)->specs));
  return n ? averaged(std::move(r), *n) : std::move(r);
}

// The weights after each of `steps` updates with drawn gradients, and the last average.
struct trajectory {
  std::vector<std::vector<double>> weights;
  std::vector<double> average;
};

trajectory run_of(const std::string& name, std::optional<average_numbers> n, std::uint64_t steps, std::int64_t piece = count) {
  const auto dev = make_cpu_device();
  const auto r = made(name, n);
  auto w = tensor::allocate(*dev, {count}, dtype::f64);
  for (std::int64_t i = 0; i < count; ++i) w.mutable_data<double>()[i] = 1.0 / static_cast<double>(i + 1);
  tensors states;
  for (std::size_t k = 0; k < r->states().size(); ++k) {
    states.push_back(tensor::allocate(*dev, {count}, dtype::f64));
    dev->fill(0, states.back());
  }
  trajectory t;
  for (std::uint64_t step = 0; step < steps; ++step) {
    auto g = tensor::allocate(*dev, {count}, dtype::f64);
    for (std::int64_t i = 0; i < count; ++i)
      g.mutable_data<double>()[i] = std::sin(static_cast<double>(step * 7 + static_cast<std::uint64_t>(i)));
    rule_step now;
    now.lr = 0.1;
    now.step = now.updates = step;
    for (std::int64_t begin = 0; begin < count; begin += piece) {
      const shape part{std::min(piece, count - begin)};
      auto mine = w.slice(begin, part);
      tensors was, next;
      for (auto& s : states) was.push_back(s.slice(begin, part)), next.push_back(s.slice(begin, part));
      r->update(*dev, now, mine, g.slice(begin, part), mine, was, next);
    }
    t.weights.emplace_back(w.data<double>(), w.data<double>() + count);
  }
  if (n) t.average.assign(states.back().data<double>(), states.back().data<double>() + count);
  return t;
}

// The definition, from the weights after each update.
std::vector<double> expected_average(const trajectory& t, const average_numbers& n) {
  std::vector<double> mean(count), biased(count);
  double samples = 0;
  for (std::uint64_t k = 1; k <= t.weights.size(); ++k) {
    const auto& w = t.weights[k - 1];
    const bool counts = k > n.start && (k - n.start) % n.every == 0;
    if (samples == 0 && !counts) mean = w;
    if (!counts) continue;
    ++samples;
    for (std::size_t i = 0; i < w.size(); ++i) {
      if (n.kind == average_numbers::kind_of::swa) {
        biased[i] += w[i];
        mean[i] = biased[i] / samples;
      } else if (n.bias_correction) {
        biased[i] = n.decay * biased[i] + (1 - n.decay) * w[i];
        mean[i] = biased[i] / (1 - std::pow(n.decay, samples));
      } else {
        mean[i] = samples == 1 ? w[i] : n.decay * mean[i] + (1 - n.decay) * w[i];
      }
    }
  }
  return mean;
}

std::vector<average_numbers> every_kind() {
  using enum average_numbers::kind_of;
  std::vector<average_numbers> all;
  for (const std::uint64_t start : {0, 1, 5, 40})
    for (const std::uint64_t every : {1, 2, 7})
      for (const bool corrected : {false, true}) {
        all.push_back({ema, 0.9, corrected, start, every});
        if (!corrected) all.push_back({swa, 0, false, start, every});
      }
  return all;
}

TEST(average_rule, equals_the_definition) {
  for (const auto& n : every_kind())
    for (const std::uint64_t steps : {1, 3, 23}) {
      const auto got = run_of("momentum", n, steps);
      const auto want = expected_average(got, n);
      for (std::size_t i = 0; i < want.size(); ++i)
        ASSERT_NEAR(got.average[i], want[i], 1e-12) << "start " << n.start << " every " << n.every << " steps " << steps;
    }
}

TEST(average_rule, does_not_change_the_weights) {
  for (const char* name : {"sgd", "momentum", "adam", "rmsprop"})
    EXPECT_EQ(run_of(name, average_numbers{}, 9).weights, run_of(name, std::nullopt, 9).weights) << name;
}

TEST(average_rule, has_the_same_bits_when_it_is_cut_into_pieces) {
  for (const auto& n : every_kind()) {
    const auto whole = run_of("adam", n, 12);
    for (const std::int64_t piece : {1, 5, 16}) EXPECT_EQ(run_of("adam", n, 12, piece).average, whole.average) << piece;
  }
}

TEST(average_rule, is_the_last_state) {
  EXPECT_EQ(made("sgd", average_numbers{})->states(), std::vector<std::string>{"average"});
  EXPECT_EQ(made("adam", average_numbers{})->states(), (std::vector<std::string>{"mean", "square", "average"}));
}

}  // namespace
}  // namespace troupe::average_cases
