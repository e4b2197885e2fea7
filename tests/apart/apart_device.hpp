// A device of the machine (machine.hpp): a stream whose primitives are queued and computed by a CPU
// device, on memory that the host cannot access. The bits are those of the CPU device.
#pragma once

#include <memory>

#include "ops/device.hpp"
#include "tests/apart/machine.hpp"

namespace troupe::apart {

// `number`: index of the device in the machine, as in "apart:0".
std::unique_ptr<device> make_device(std::shared_ptr<device> maths, std::shared_ptr<machine> m, std::int16_t number = 0);

}  // namespace troupe::apart
