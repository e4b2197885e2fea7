#include "ops/clip.hpp"

#include <cmath>

namespace troupe {

double norm_clip_factor(double limit, const std::vector<double>& squares, double scale) {
  double total = 0.0;
  for (const double s : squares) total += s;
  const double norm = std::fabs(scale) * std::sqrt(total);
  return std::isfinite(norm) && norm > limit ? limit / norm : 1.0;
}

}  // namespace troupe
