// Measures what the processor computes: its peak, matrix products and memory, with one thread and
// with all.
#pragma once

#include "runtime/node/machine/facts.hpp"

namespace troupe::machine {

// Takes about 1.5 s, during which `threads` threads compute.
speed measure_speed(unsigned threads);

}  // namespace troupe::machine
