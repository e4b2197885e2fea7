// The stock reducers, for table.cpp.
#pragma once

#include "runtime/graph/reducer_row.hpp"

namespace troupe {

reducer_row server_reducer();
reducer_row tree_reducer();

void add_stock_reducers(reducer_registry& r);

}  // namespace troupe
