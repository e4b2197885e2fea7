// Mode `bsp`: bulk-synchronous parallel training (Valiant 1990; the synchronous mode of a parameter
// server, Li et al. 2014, section 3).
//
// Worker sync. For each layer, the gradients of step t's packets are added in the packet tree. Each
// maximal aligned run of the worker's packets is pushed as soon as its sum is complete, one push
// per parameter block, while backward still runs for other layers. When all blocks of a layer have
// arrived at version t + 1, the layer's stage receives them. The worker sync itself never waits: a
// stage runs the packets of step t with weights of exactly version t.
//
// Shard sync. For each block at version t, the pushes of step t are added in the same tree. When
// the root is complete, the mean gradient is applied once, the version becomes t + 1, and the block
// is sent to every worker that uses it.
//
// Messages per step, worker and block: one push per maximal aligned run of the worker's packets
// (one if the numbers of packets and workers are powers of two), one weights. Bytes: the block, up
// per push and down once. With reducer roles the same messages travel along their edges
// (runtime/reduce/passing_reducer.hpp).
//
// Invariants:
//   * each gradient is applied exactly once: a push with step < version, or for a tree node that is
//     already present, is ignored;
//   * the weights of version t depend on the packets' gradients alone, not on which worker computed
//     them nor on the order of arrival;
//   * no push has step > version + delay, since a stage runs step t only when it has version t -
//     delay; such a push is dropped and counted. The delay of a layer is 0 except in pipelines with
//     weight rule `latest` or `stash` (runtime/plan/warm_up.hpp).
#include "runtime/sync/clocked.hpp"
#include "runtime/sync/finite_check.hpp"
#include "runtime/sync/norm_clip.hpp"
#include "runtime/sync/stock.hpp"

namespace troupe {

sync_mode bsp_mode() {
  return {.name = "bsp",
          .doc =
              "Bulk-synchronous parallel: every step applies the mean gradient over all packets, summed in a fixed order. All "
              "workers run step t with weights of version t. Valiant 1990; Li et al. 2014.",
          .specs = {},
          .lockstep = true,
          .clips_by_norm = true,
          .averages = true,
          .compresses = true,
          .places = true,
          .delays = true,
          .left = survivor_rule::versions,
          .check = [](const options&, const job_spec&, const job_plan& p) { one_group(p, "bsp"); },
          .make_worker = [](sync_config c) { return std::make_unique<clocked_worker>(std::move(c), clock_policy{}); },
          .make_shard =
              [](sync_config c) {
                return std::make_unique<clocked_shard>(
                    std::move(c), clock_policy{},
                    update_list{finite_check::make, norm_clip::make, apply_rule::make, replicate::make});
              }};
}

}  // namespace troupe
