// Stands in for ops/onednn where the library is absent: the same symbols. Nobody calls the passes, since why_not() refuses them.
#include "ops/cpu/onednn.hpp"

namespace troupe::cpu {

std::string onednn_id() { return {}; }
conv_passes<float> conv_onednn() { return {}; }

}  // namespace troupe::cpu
