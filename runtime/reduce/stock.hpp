// The stock reducers.
#pragma once

#include "runtime/plan/reducer_descriptor.hpp"

namespace troupe {

void add_stock_reducers(reducer_registry& r);  // table.cpp

}  // namespace troupe
