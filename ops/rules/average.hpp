// The average of the weights over updates (Polyak and Juditsky 1992), as an update rule around
// another one. It is one more state of that rule, so it is stored, sent and restored with the
// others.
//   samples   the weights after update k, if k > start and `every` divides k - start; n counts them
//   ema       a' = decay a + (1 - decay) w; the first sample is copied, as in torch's AveragedModel
//   ema, bias_correction   a' = a + c (w - a), c = (1 - decay) / (1 - decay^n): the mean of Adam
//             without its pull towards zero (Kingma and Ba 2015, section 3)
//   swa       a' = a + (w - a) / n, the mean of all samples (Izmailov et al. 2018)
// Before the first sample the average is the weights. The owner of the states begins it with the
// initial weights, unlike other states, which begin at zero.
// Invariant: as of every rule, element i depends on element i alone.
#pragma once

#include <cstdint>
#include <memory>

#include "ops/rule.hpp"

namespace troupe {

constexpr const char* average_state = "average";  // its name in checkpoints; the last state of the rule

struct average_numbers {
  enum class kind_of : std::uint8_t { ema, swa };
  kind_of kind = kind_of::ema;
  double decay = 0.999;
  bool bias_correction = false;
  std::uint64_t start = 0, every = 1;
};

// The share of the weights after update `k` (from 1) in the average; 0: it stays, 1: it becomes the
// weights.
double average_share(const average_numbers& n, std::uint64_t k);

std::unique_ptr<rule> averaged(std::unique_ptr<rule> inner, average_numbers n);

}  // namespace troupe
