// How many mistakes of one file are told.
#pragma once

#include <cstddef>

#include "runtime/base/diagnostic.hpp"

namespace troupe {

constexpr std::size_t max_mistakes_shown = 100;

// All, or the first of them and a line that says how many more there are. A file of 1 MiB can have
// 200,000 mistakes, and the list travels in one message.
diagnostics shown_mistakes(diagnostics all);

}  // namespace troupe
