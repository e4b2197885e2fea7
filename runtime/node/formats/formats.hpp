// Sources of examples in files of other programs, whose readers are libraries.
#pragma once

#include "runtime/data/source.hpp"

namespace troupe {

constexpr std::int64_t most_classes = 1 << 24;  // that labels may name

source_type lmdb_source_type();   // lmdb_source.cpp
source_type numpy_source_type();  // numpy_source.cpp

}  // namespace troupe
