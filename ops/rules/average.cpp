#include "ops/rules/average.hpp"

#include <cmath>
#include <utility>

#include "ops/device.hpp"

namespace troupe {
namespace {

struct averaging_rule final : rule {
  std::unique_ptr<rule> inner;
  average_numbers numbers;
  averaging_rule(std::unique_ptr<rule> r, average_numbers n) : inner(std::move(r)), numbers(n) {}

  std::vector<std::string> states() const override {
    auto all = inner->states();
    all.emplace_back(average_state);
    return all;
  }
  void update(device& dev, const rule_step& now, const tensor& weight_in, const tensor& grad, tensor& weight_out,
              const tensors& states_in, tensors& states_out) const override {
    const auto before = states_in.back();
    auto mean = std::move(states_out.back());
    states_out.pop_back();
    inner->update(dev, now, weight_in, grad, weight_out, tensors(states_in.begin(), states_in.end() - 1), states_out);
    const auto share = average_share(numbers, now.updates + 1);
    mean.back(dev);
    if (share == 1) {
      dev.copy(weight_out, mean);
    } else {
      if (!mean.same_storage(before)) dev.copy(before, mean);
      if (share > 0) {
        dev.scale(1 - share, mean);
        dev.axpy(share, weight_out, mean);
      }
    }
    states_out.push_back(std::move(mean));
  }
};

}  // namespace

double average_share(const average_numbers& n, std::uint64_t k) {
  if (k < n.start + n.every) return 1;
  if ((k - n.start) % n.every != 0) return 0;
  const auto sample = (k - n.start) / n.every;
  const auto number = static_cast<double>(sample);
  if (n.kind == average_numbers::kind_of::swa) return 1 / number;
  if (n.bias_correction) return (1 - n.decay) / (1 - std::pow(n.decay, number));
  return sample == 1 ? 1 : 1 - n.decay;
}

std::unique_ptr<rule> averaged(std::unique_ptr<rule> inner, average_numbers n) {
  return std::make_unique<averaging_rule>(std::move(inner), n);
}

}  // namespace troupe
