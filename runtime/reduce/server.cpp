// Reducer `server`: none between them. Workers push to the shards, which sum: bytes at each worker
// W up and W down, at the shards together W times the workers, spread over them.
#include "runtime/reduce/stock.hpp"

namespace troupe {

reducer_descriptor server_reducer() {
  return {.name = "server", .doc = "Workers push to the shards, and the shards sum. Several shards share the load.", .specs = {}};
}

}  // namespace troupe
