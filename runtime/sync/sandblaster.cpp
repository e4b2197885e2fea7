// sandblaster: portions of a batch dealt while the step runs (Dean et al. 2012, section 4.2: the
// coordinator "assigns each of the N model replicas a small portion of work, much smaller than
// 1/Nth of the total size of a batch", and "schedules multiple copies of the outstanding portions"
// at the end; there for L-BFGS, here for the gradient of a synchronous step).
//
// Coordinator. A step's packets are cut into portions of `work_unit` packets. Every worker is given
// one, and another whenever it says that one is done. When none is left, workers without work get
// copies of the portions that have been out longest. Worker half. Sums the packets of a portion in
// the fixed tree and pushes the sum; says `ready{work_unit}`. When weights of the next version
// arrive first, others have finished the step: what is under way for it flows on without maths, and
// its sums are forgotten. Shard half. That of bsp: the first answer for a node of the tree wins, a
// second one is ignored.
//
// Messages a step, per portion and block: one push (two, where it was copied); one weights per
// worker and block.
//
// Invariants: every portion enters the sum once; the weights are those of bsp, bit for bit, whoever
// computed what.
#include <bit>

#include "ops/option_specs.hpp"
#include "runtime/sync/clipped.hpp"
#include "runtime/sync/stock.hpp"

namespace troupe {
namespace {

clock_policy work_unit_policy(const options& o) {
  return {.work_units = true, .work_unit = static_cast<std::uint32_t>(o.integer("portion"))};
}

}  // namespace

sync_mode sandblaster_mode() {
  return {.name = "sandblaster",
          .doc =
              "Synchronous, packets dealt in portions while the step runs, the slowest portions twice; the first answer wins. Dean "
              "et al. "
              "2012, section 4.2.",
          .specs = {integer_option("portion", 1, "packets of one portion, a power of two", 1)},
          .lockstep = true,
          .work_units = true,
          .clips_by_norm = true,
          .left = survivor_rule::versions,
          .check =
              [](const options& o, const job_spec&, const job_plan& p) {
                one_group(p, "sandblaster");
                no_tree(p, "sandblaster");
                const auto work_unit = static_cast<std::uint64_t>(o.integer("portion"));
                if (!std::has_single_bit(work_unit)) throw option_error("portion", "portion must be a power of two");
              },
          .make_worker =
              [](sync_config c) {
                const auto p = work_unit_policy(c.mode);
                return std::make_unique<clocked_worker>(std::move(c), p);
              },
          .make_shard =
              [](sync_config c) {
                const auto p = work_unit_policy(c.mode);
                return make_clocked_shard(std::move(c), p);
              }};
}

}  // namespace troupe
