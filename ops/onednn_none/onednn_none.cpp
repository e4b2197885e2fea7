// Replaces ops/onednn in builds without the library: the same symbols. The passes are never called,
// since why_not() refuses the algorithm.
#include "ops/cpu/onednn.hpp"

namespace troupe::cpu {

std::string onednn_id() { return {}; }
conv_passes<float> conv_onednn() { return {}; }
void conv_onednn_parameters(device&, const kernels<float>&, const conv_geometry&, const float*, const float*, float*, float*,
                            bool) {}

}  // namespace troupe::cpu
