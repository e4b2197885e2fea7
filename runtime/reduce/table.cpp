#include "runtime/reduce/stock.hpp"

namespace troupe {

// The stock reducers: one line each. NAME_reducer() is defined in NAME.cpp.
// clang-format off
#define TROUPE_STOCK_REDUCERS(REDUCER) \
  REDUCER(server)       \
  REDUCER(tree)         \
  REDUCER(sharded)      \
  REDUCER(ring)         \
  REDUCER(hierarchical) \
  REDUCER(nccl)
// clang-format on

#define TROUPE_DECLARE(name) reducer_descriptor name##_reducer();
TROUPE_STOCK_REDUCERS(TROUPE_DECLARE)
#undef TROUPE_DECLARE

void add_stock_reducers(reducer_registry& r) {
#define TROUPE_ADD(name) r.add(name##_reducer());
  TROUPE_STOCK_REDUCERS(TROUPE_ADD)
#undef TROUPE_ADD
}

}  // namespace troupe
