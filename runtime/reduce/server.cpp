// Reducer `server`: no reducer roles. Workers push to the shards, which sum. Bytes: W up and W down
// at each worker; at all shards together W times the number of workers, each way.
#include "runtime/reduce/stock.hpp"

namespace troupe {

reducer_descriptor server_reducer() {
  return {.name = "server", .doc = "Workers push to the shards, which sum. Several shards share the load.", .specs = {}};
}

}  // namespace troupe
