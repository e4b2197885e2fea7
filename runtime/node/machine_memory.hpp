// How much memory this machine has. Errors: none.
#pragma once

namespace troupe {

// In bytes; 0 when the system does not say.
double machine_memory();

}  // namespace troupe
