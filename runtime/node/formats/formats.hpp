// Sources of examples in files of other programs, whose readers are libraries.
#pragma once

#include "runtime/data/source.hpp"

namespace troupe {

source_type numpy_source_type();  // numpy_source.cpp

}  // namespace troupe
