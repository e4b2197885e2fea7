// Finds the parameters of a layer whose gradient is not finite. For use in tasks: `bad` is complete
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
