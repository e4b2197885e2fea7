// Limits the number of mistakes that are reported for one file.
#pragma once

#include <cstddef>

#include "runtime/base/diagnostic.hpp"

namespace troupe {

constexpr std::size_t max_mistakes_shown = 100;

// Returns all mistakes, or the first 100 and a line with the number of the others. A file of 1 MiB
// can have 200,000 mistakes, and the list is sent in one message.
diagnostics shown_mistakes(diagnostics all);

}  // namespace troupe
