// Gradient clipping by norm. The synchronisation mode exchanges the norms (docs/determinism.md).
// Clipping by value is element-wise and part of every update rule (rule_step::clip_value).
#pragma once

#include <vector>

namespace troupe {

// The factor that reduces the gradient's L2 norm over all parameters to at most `limit`: min(1,
// limit / norm), norm = scale sqrt(sum of `squares`). `squares` are the parameters' sums of squares
// in layer order, of the gradient summed over packets; `scale` converts that sum to a mean. They
// are added in that order, which fixes the bits. Returns 1 if the norm is not finite, so that the
// error stays visible. Pascanu, Mikolov, Bengio 2013, algorithm 1.
double norm_clip_factor(double limit, const std::vector<double>& squares, double scale);

}  // namespace troupe
