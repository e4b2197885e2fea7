// What conditions and schedules compare when they look for an improvement: the accuracy of an
// evaluation, or its loss.
#pragma once

#include <string>

namespace troupe {

class compared_measure {
 public:
  explicit compared_measure(const std::string& word) : loss_(word == "loss"), accuracy_(word == "accuracy") {}

  // More is better. `accuracy` < 0: the model has none.
  double of(double loss, double accuracy) const { return accuracy_ || (!loss_ && accuracy >= 0) ? accuracy : -loss; }

 private:
  bool loss_, accuracy_;
};

}  // namespace troupe
