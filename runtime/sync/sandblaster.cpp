// Mode `sandblaster`: synchronous training in which work units of a batch are dealt while the step
// runs (Dean et al. 2012, section 4.2: the coordinator "assigns each of the N model replicas a
// small portion of work, much smaller than 1/Nth of the total size of a batch", and "schedules
// multiple copies of the outstanding portions" at the end; there for L-BFGS, here for the gradient
// of a synchronous step).
//
// Coordinator. Cuts a step's packets into work units of `portion` packets. It deals every worker a
// few of them, and another one for each that the worker reports as done. When none is left, workers
// without work are dealt copies of the work units that have been out longest.
//
// Worker sync. Adds the packets of a work unit in the packet tree, pushes the sum, and reports
// `ready{work_unit}` behind the pushes of all layers. If weights of the next version arrive first,
// other workers have finished the step: its remaining packets pass the stages without maths, and
// their sums are discarded.
//
// Shard sync. That of bsp: the first sum for a node of the tree counts, a second one is ignored.
//
// Messages per step: one push per work unit and block (two if the unit was copied), one weights per
// worker and block.
//
// Invariants: every work unit enters the sum once; the weights are those of bsp bit for bit,
// whichever workers computed the work units.
#include <bit>

#include "ops/option_specs.hpp"
#include "runtime/sync/clocked.hpp"
#include "runtime/sync/finite_check.hpp"
#include "runtime/sync/norm_clip.hpp"
#include "runtime/sync/stock.hpp"

namespace troupe {
namespace {

clock_policy work_unit_policy(const options& o) {
  return {.work_units = true, .work_unit = static_cast<std::uint32_t>(o.integer("portion"))};
}

}  // namespace

sync_mode sandblaster_mode() {
  return {
      .name = "sandblaster",
      .doc =
          "Synchronous training with dynamic load balancing: work units of `portion` packets are dealt to workers while the step "
          "runs, the slowest ones twice, and the first result counts. Dean et al. 2012, section 4.2.",
      .specs = {integer_option("portion", 1, "number of packets per work unit, a power of two", 1)},
      .lockstep = true,
      .work_units = true,
      .clips_by_norm = true,
      .averages = true,
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
            return std::make_unique<clocked_shard>(
                std::move(c), p, update_list{finite_check::make, norm_clip::make, apply_rule::make, replicate::make});
          }};
}

}  // namespace troupe
