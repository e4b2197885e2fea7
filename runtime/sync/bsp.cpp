// bsp: bulk-synchronous parallel training (Valiant 1990; the synchronous mode of a parameter
// server, Li et al. 2014, section 3).
//
// Worker half. Per layer: the packets' gradients of step t meet in the fixed tree over packets;
// every maximal aligned block of the worker's range leaves, as soon as it is complete, as one push
// per parameter block, layer by layer while backward still runs. When all blocks of a layer at
// version t + 1 have come back, the layer's stage gets them. The worker never waits by itself: a
// stage runs packets of step t at exactly version t.
//
// Shard half. Per parameter block, at version t: pushes of step t meet in the same tree; when the
// root is complete the mean gradient is applied once, the version becomes t + 1, and every worker
// gets the block.
//
// Messages a step, per worker and parameter block: one push per maximal aligned block of the
// worker's range (one, when packets and workers are powers of two), one weights. Bytes: the block
// up per push, the block down. With a reducer that sums on the way the same, along its edges
// (runtime/reduce/passing_reducer.hpp).
//
// Invariants:
//   * a gradient is applied exactly once: a push with step < version, or for a tree node that is
//     there already, is ignored;
//   * weights of version t depend on the packets' gradients alone, not on who computed them or in
//     which order they came;
//   * a push with step > version + delay cannot be: no stage runs step t before it has version t -
//     delay (dropped and counted). The delay of a layer is 0 but for pipelines with weight rule
//     `latest` or `stash` (runtime/plan/warm_up.hpp).
#include "runtime/sync/clipped.hpp"
#include "runtime/sync/stock.hpp"

namespace troupe {

sync_mode bsp_mode() {
  return {.name = "bsp",
          .doc =
              "Bulk-synchronous: every step uses the mean gradient over all packets, summed in a fixed order; all workers run step "
              "t at "
              "weights of version t. Valiant 1990; Li et al. 2014.",
          .specs = {},
          .lockstep = true,
          .clips_by_norm = true,
          .compresses = true,
          .places = true,
          .delays = true,
          .left = survivor_rule::versions,
          .check = [](const options&, const job_spec&, const job_plan& p) { one_group(p, "bsp"); },
          .make_worker = [](sync_config c) { return std::make_unique<clocked_worker>(std::move(c), clock_policy{}); },
          .make_shard = [](sync_config c) { return make_clocked_shard(std::move(c), clock_policy{}); }};
}

}  // namespace troupe
