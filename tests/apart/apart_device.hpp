// A device of the machine (machine.hpp): a lane whose primitives are queued, and computed by a CPU
// device on memory that the host cannot touch. The same bits as that CPU device.
#pragma once

#include <memory>

#include "ops/device.hpp"
#include "tests/apart/machine.hpp"

namespace troupe::apart {

// `number`: which device of the machine, "apart:0".
std::unique_ptr<device> make_device(std::shared_ptr<device> maths, std::shared_ptr<machine> m, std::int16_t number = 0);

}  // namespace troupe::apart
