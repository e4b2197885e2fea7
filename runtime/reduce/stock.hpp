// The stock reducers.
#pragma once

#include "runtime/graph/reducer_descriptor.hpp"

namespace troupe {

void add_stock_reducers(reducer_registry& r);  // table.cpp

}  // namespace troupe
