// Replaces ops/cuda in builds without the toolkit: the same symbols, and a reason.
#include "ops/device.hpp"

namespace troupe {

bool cuda_available() { return false; }
std::string cuda_reason() { return "this build has no CUDA backend"; }
std::unique_ptr<device> make_cuda_device(int index) { return (void)index, nullptr; }

}  // namespace troupe
