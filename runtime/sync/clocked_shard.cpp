// The shard sync of the clocked modes.
#include "runtime/sync/clocked.hpp"

namespace troupe {

clocked_shard::clocked_shard(sync_config c, const clock_policy& p, const update_list& steps)
    : shard_sync(std::move(c), gives::weights, steps), clocks_(parts(), p, update_) {}

void clocked_shard::on_updated(shard_block& b, effects& out) {
  clocks_.updated(b, out);
  clocks_.start_next(b, out);
}

role_status clocked_shard::status() const {
  auto s = shard_sync::status();
  clocks_.describe(s);
  return s;
}

}  // namespace troupe
