// Stands in for ops/onednn where the library is absent: the same symbols. Nobody calls the passes,
// since why_not() refuses them.
#include "ops/cpu/onednn.hpp"

namespace troupe::cpu {

std::string onednn_id() { return {}; }
conv_passes<float> conv_onednn() { return {}; }
void conv_onednn_parameters(device&, const kernels<float>&, const conv_geometry&, const float*, const float*, float*, float*,
                            bool) {}

}  // namespace troupe::cpu
