// Which parameters of a layer have a gradient that is not finite. For tasks: what is found is there
// when the task is over.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "ops/finite.hpp"
#include "ops/tensor.hpp"

namespace troupe {

inline void look_at_sum(device& d, const std::vector<std::uint32_t>& params, const tensors& sum,
                        const std::shared_ptr<std::vector<std::uint32_t>>& bad) {
  for (std::size_t i = 0; i < params.size() && i < sum.size(); ++i)
    if (sum[i]) look_for_not_finite(d, sum[i], [bad, p = params[i]] { bad->push_back(p); });
}

}  // namespace troupe
