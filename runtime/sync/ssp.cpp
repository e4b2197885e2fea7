// Mode `ssp`: stale synchronous parallel training (Ho et al. 2013, "More Effective Distributed ML
// via a Stale Synchronous Parallel Parameter Server", section 3). s is the option `staleness`.
//
// Worker sync. Step t may use weights that lack up to s clocks: version >= max(0, t - s). When the
// gradients of clock t have been pushed, the worker fetches newer weights. It starts step t + 1 at
// once if the weights that it has are new enough, and otherwise waits for the answer. It reads its
// own writes: its own sums that the weights lack are laid over them as plain gradient steps (its
// share of the mean).
//
// Shard sync. Buffers gradients by clock and applies them clock by clock, as bsp does: the mean
// over all packets in the packet tree, when the last one has arrived. A fetch of version v is
// answered when v clocks have been applied.
//
// Messages per step, worker and block: one push per maximal aligned run of the worker's packets,
// one fetch, one weights. Bytes: the block up and down.
//
// Invariants:
//   * no step t uses weights older than version t - s;
//   * s = 0 is bsp bit for bit; s = "inf" never waits;
//   * clocks are applied in order, each once, so the weights of version v do not depend on the
//     order in which pushes arrive.
#include "ops/option_specs.hpp"
#include "runtime/sync/clocked.hpp"
#include "runtime/sync/finite_check.hpp"
#include "runtime/sync/stock.hpp"

namespace troupe {
namespace {

clock_policy ssp_policy(const options& o) { return {.staleness = count_of(o, "staleness", clock_policy::forever), .pull = true}; }

}  // namespace

sync_mode ssp_mode() {
  return {
      .name = "ssp",
      .doc =
          "Stale synchronous parallel: a worker may be up to `staleness` clocks ahead of the slowest worker, and waits only if its "
          "weights would be older than that. 0 is bsp. Ho et al. 2013.",
      .specs = {count_or_inf_option("staleness", 1,
                                    "maximum number of clocks that the weights of a step may lack: 0, 1, ... or \"inf\"")},
      .averages = true,
      .compresses = true,
      .left = survivor_rule::versions,
      .check =
          [](const options&, const job_spec&, const job_plan& p) {
            one_group(p, "ssp");
            no_tree(p, "ssp");
          },
      .make_worker =
          [](sync_config c) {
            const auto p = ssp_policy(c.mode);
            return std::make_unique<clocked_worker>(std::move(c), p);
          },
      .make_shard =
          [](sync_config c) {
            const auto p = ssp_policy(c.mode);
            return std::make_unique<clocked_shard>(std::move(c), p,
                                                   update_list{finite_check::make, apply_rule::make, replicate::make});
          }};
}

}  // namespace troupe
