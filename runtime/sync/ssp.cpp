// ssp(s): stale synchronous parallel training (Ho et al. 2013, "More Effective Distributed ML via a
// Stale Synchronous Parallel Parameter Server", section 3).
//
// Worker half. At clock t it may use weights that lack up to s clocks: version >= max(0, t - s).
// After its gradients of clock t have left, it asks for newer weights and goes on at once if those
// it has are new enough; else it waits for the answer. It reads its own writes: gradients of its
// own that the weights lack are laid over them as plain gradient steps (its share of the mean).
//
// Shard half. Gradients are buffered by clock and applied as bsp does, clock by clock: the mean
// over all packets in the fixed tree, when the last one is there. A question for version v is
// answered when v clocks have been applied.
//
// Messages a step, per worker and parameter block: one push (per maximal aligned block), one fetch,
// one weights. Bytes: the block up and down.
//
// Invariants:
//   * no step t uses weights older than version t - s;
//   * s = 0 is bsp, bit for bit; s = "inf" never waits;
//   * clocks are applied in order, each once: the weights of version v are those of ssp's own
//     history, whatever the order of arrival.
#include "ops/option_specs.hpp"
#include "runtime/sync/guarded.hpp"
#include "runtime/sync/stock.hpp"

namespace troupe {
namespace {

clock_policy ssp_policy(const options& o) { return {.staleness = count_of(o, "staleness", clock_policy::forever), .pull = true}; }

}  // namespace

sync_mode ssp_mode() {
  return {
      .name = "ssp",
      .doc =
          "Stale synchronous: a worker may be ahead of the slowest by `staleness` clocks; it waits only when its weights would be "
          "older than that. 0 is bsp. Ho et al. 2013.",
      .specs = {count_or_inf_option("staleness", 1, "clocks that the weights of a step may lack: 0, 1, ... or \"inf\"")},
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
            return std::make_unique<guarded_shard>(std::move(c), p);
          }};
}

}  // namespace troupe
