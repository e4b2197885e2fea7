// Bulk-synchronous training: the two halves as roles. See bsp.cpp for states, messages and bytes.
#pragma once

#include <memory>

#include "runtime/sync/mode.hpp"

namespace troupe {

sync_mode bsp_mode();

}  // namespace troupe
