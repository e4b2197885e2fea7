// Is a layer right? For whoever writes one: gradients against central differences, the contract of
// layer.hpp, purity, and f32 against f64. Used by the tests on every row and case of a registry, by
// `troupe check-layer` on a plugin's, and meant for the tests of layers outside this tree:
//
//   for (const auto& c : type.cases)
//     for (const auto& finding : check_layer(type, c, *make_cpu_device())) std::cerr << finding << '\n';
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ops/device.hpp"
#include "ops/registry.hpp"

namespace troupe {

struct layer_check {
  double step = 1e-4;           // of the central differences, for values near 1
  double tolerance = 1e-5;      // of gradients, relative to the larger of 1 and the gradient
  double f32_tolerance = 2e-4;  // of f32 against f64, relative to the largest element
  double bf16_tolerance =
      0.016;          // of bf16 against f32 on the same numbers, relative to the largest element: a few roundings of 2^-9
  int samples = 100;  // elements of each tensor whose gradients are compared in each draw of values; all, if it has no more
  int seeds = 3;  // at least: each gives two draws of values. Small cases take more, until they have compared `samples` elements
  std::uint64_t seed = 1;  // the first of them; the others follow it
};

// How much of the gradients the comparison with central differences has seen.
struct layer_coverage {
  std::int64_t compared = 0, elements = 0;  // elements of gradients, over all draws: compared, of how many
  std::int64_t kinks = 0;    // of those compared: at a kink, where any value between the two one-sided derivatives is right
  int draws = 0;             // of values
  double low = 0, high = 0;  // range of the inputs drawn

  layer_coverage& operator+=(const layer_coverage& more);
};

// What is wrong, one sentence each; empty when nothing is. Checked:
//   * holds() and ids_below() agree with the case: its inputs and classes are what the layer says
//     it takes;
//   * infer() agrees with what forward() yields; every element of an output and of a gradient is
//     written (they are poisoned with NaN before); inputs, parameters and incoming gradients are
//     left alone;
//   * backward() uses only what backward_needs() asks for (the rest is poisoned), skips what nobody
//     wants without changing the rest, and adds to parameter gradients exactly when told to
//     accumulate;
//   * gradients equal central differences in f64; where the function has a kink, they lie between
//     the two sides. In two packets, over several draws of values: standard normal ones, and ones
//     spread over [-24, 24], with many on both sides of whole and half numbers, where kinks are;
//   * in training it leaves one statistic for each parameter that is not trainable, and testing
//     takes them;
//   * packets interleaved through one layer, with a plan each or sharing one, give the bits of
//     packets one after the other;
//   * where several packets can be computed as one (gathered()): to the bits of one by one, their
//     gradients added in the fixed tree;
//   * f32 agrees with f64; where the row takes it, bf16 agrees with f32 on numbers that both hold,
//     in the types that a bf16 job declares; both phases run.
// `seen`, where given, is added to.
std::vector<std::string> check_layer(const layer_type& type, const layer_case& c, device& dev, const layer_check& how = {},
                                     layer_coverage* seen = nullptr);

// Of the row itself: doc, cases, number of inputs.
std::vector<std::string> check_layer_entry(const layer_type& type);
// The row, then every case; each finding names its case.
std::vector<std::string> check_layer_type(const layer_type& type, device& dev, const layer_check& how = {});

}  // namespace troupe
