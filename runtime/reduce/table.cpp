#include "runtime/reduce/stock.hpp"

namespace troupe {

void add_stock_reducers(reducer_registry& r) {
  for (auto make : {server_reducer, tree_reducer}) r.add(make());
}

}  // namespace troupe
