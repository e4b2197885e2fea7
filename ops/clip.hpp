// Clipping a gradient by its norm: the maths; who exchanges the norms is the mode's matter
// (docs/determinism.md). Clipping by value is element-wise and part of every rule
// (rule_step::clip_value).
#pragma once

#include <vector>

namespace troupe {

// What every element of the gradient is to be multiplied with so that its L2 norm over all
// parameters is at most `limit`: min(1, limit / norm), norm = scale sqrt(sum of `squares`).
// `squares` are the parameters' sums of squares in layer order (of the sum over packets, `scale`
// making it a mean); they are added in that order, which fixes the bits. A norm that is not finite
// gives 1: what is wrong stays visible. Pascanu, Mikolov, Bengio 2013, algorithm 1.
double norm_clip_factor(double limit, const std::vector<double>& squares, double scale);

}  // namespace troupe
