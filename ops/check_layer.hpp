// Checks of a layer implementation: gradients against central differences, the contract of
// layer.hpp, purity, and f32 against f64. The tests run them on every entry and case of a registry,
// `troupe check-layer` runs them on those of a plugin, and tests of layers outside this tree can
// use them:
//
//   for (const auto& c : type.cases)
//     for (const auto& finding : check_layer(type, c, *make_cpu_device()))
//       std::cerr << finding << '\n';
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ops/device.hpp"
#include "ops/registry.hpp"

namespace troupe {

struct layer_check {
  double step = 1e-4;           // of the central differences, for values near 1; larger values scale it
  double tolerance = 1e-5;      // of gradients, relative to the larger of 1 and the gradient
  double f32_tolerance = 2e-4;  // of f32 against f64, relative to the largest element
  // Of bf16 against f32 on the same numbers, relative to the largest element: a few roundings of
  // 2^-9.
  double bf16_tolerance = 0.016;
  int samples = 100;  // elements per tensor whose gradients are compared in each draw; all, if the tensor has no more
  // Minimum number of seeds; each gives two draws. Small cases use more, until `samples` elements
  // have been compared.
  int seeds = 3;
  std::uint64_t seed = 1;  // the first seed; the others follow it
};

// The part of the gradients that was compared with central differences.
struct layer_coverage {
  std::int64_t compared = 0, elements = 0;  // elements of gradients over all draws: compared, and in total
  std::int64_t kinks = 0;    // compared elements at a kink, where any value between the two one-sided derivatives is accepted
  int draws = 0;             // number of draws of values
  double low = 0, high = 0;  // range of the drawn inputs

  layer_coverage& operator+=(const layer_coverage& more);
};

// Returns the errors found, one sentence each; empty if there are none. Checks:
//   * holds() and ids_below() match the inputs and classes of the case;
//   * infer() matches the outputs of forward(); every element of an output and of a gradient is
//     written (they are poisoned with NaN first); inputs, parameters and incoming gradients are not
//     modified;
//   * backward() uses only the tensors that backward_needs() requests (the others are poisoned),
//     skips gradients that are not requested without changing the others, and adds to parameter
//     gradients if and only if `accumulate` is set;
//   * mean_weight() of a loss or metric is empty or one finite number of at least 0;
//   * gradients equal central differences in f64; at a kink they lie between the two one-sided
//     derivatives. In two packets, for several draws of values: standard normal ones, and ones
//     spread over [-24, 24] with many just above and below the numbers where kinks are common;
//   * in training, forward() stores one statistic for each parameter that is not trainable, and the
//     test phase accepts these parameters;
//   * packets interleaved through one layer, with one plan each or a shared plan, give the bits of
//     packets in sequence;
//   * several packets computed in one call (gathered()) give the bits of single packets, with
//     gradients added in the order of the fixed tree;
//   * f32 matches f64; if the entry sets takes_bf16, bf16 matches f32 on numbers that both types
//     represent, with the tensor types of a bf16 job; both phases run.
// Adds its coverage to `seen`, if not null.
std::vector<std::string> check_layer(const layer_type& type, const layer_case& c, device& dev, const layer_check& how = {},
                                     layer_coverage* seen = nullptr);

// Checks the entry itself: documentation, cases, number of inputs.
std::vector<std::string> check_layer_entry(const layer_type& type);
// Checks the entry, then every case. Each error names its case.
std::vector<std::string> check_layer_type(const layer_type& type, device& dev, const layer_check& how = {});

}  // namespace troupe
