#include "runtime/coordinator/rate_plateau.hpp"

#include <algorithm>

#include "runtime/base/number_text.hpp"

namespace troupe {

rate_plateau::rate_plateau(const options& o)
    : patience_(o.integer("patience")),
      factor_(o.real("factor")),
      threshold_(o.real("threshold")),
      least_(o.real("least")),
      measure_(o.text("measure")) {}

bool rate_plateau::after_evaluation(double loss, double accuracy) {
  const double now = measure_.of(loss, accuracy);
  if (now > best_ + threshold_) {  // false for NaN
    best_ = now;
    bad_ = 0;
    return false;
  }
  if (++bad_ < patience_) return false;
  bad_ = 0;
  return true;
}

double rate_plateau::lowered(double lr) const { return std::min(lr, std::max(lr * factor_, least_)); }

std::string rate_plateau::memory() const { return number_text(best_) + " " + number_text(bad_); }

void rate_plateau::recall(const std::string& text) {
  const auto blank = text.find(' ');
  double best = 0;
  std::int64_t bad = 0;
  if (blank == std::string::npos || !read_number(text.substr(0, blank), best) || !read_number(text.substr(blank + 1), bad)) return;
  if (best != best || bad < 0) return;
  best_ = best;
  bad_ = bad;
}

}  // namespace troupe
