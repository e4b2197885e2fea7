// sandblaster: portions of a batch dealt while the step runs (Dean et al. 2012, section 4.2: the coordinator "assigns each of the N model
// replicas a small portion of work, much smaller than 1/Nth of the total size of a batch", and "schedules multiple copies of the
// outstanding portions" at the end; there for L-BFGS, here for the gradient of a synchronous step).
//
// Coordinator. A step's packets are cut into portions of `portion` packets. Every worker is given one, and another whenever it says
// that one is done. When none is left, workers without work get copies of the portions that have been out longest.
// Worker half. Sums the packets of a portion in the fixed tree and pushes the sum; says `ready{portion}`. When weights of the next
// version arrive first, others have finished the step: what is under way for it flows on without maths, and its sums are forgotten.
// Shard half. That of bsp: the first answer for a node of the tree wins, a second one is ignored.
//
// Messages a step, per portion and block: one push (two, where it was copied); one weights per worker and block.
//
// Invariants: every portion enters the sum once; the weights are those of bsp, bit for bit, whoever computed what.
#include <bit>

#include "ops/option_specs.hpp"
#include "runtime/sync/clipped.hpp"
#include "runtime/sync/stock.hpp"

namespace troupe {
namespace {

clock_policy portion_policy(const options& o) {
  return {.portions = true, .portion = static_cast<std::uint32_t>(o.integer("portion"))};
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
          .portions = true,
          .clips_by_norm = true,
          .left = leftover::versions,
          .check =
              [](const options& o, const job_spec&, const job_plan& p) {
                one_group(p, "sandblaster");
                no_tree(p, "sandblaster");
                const auto portion = static_cast<std::uint64_t>(o.integer("portion"));
                if (!std::has_single_bit(portion)) throw option_error("portion", "portion must be a power of two");
              },
          .make_worker =
              [](half_config c) {
                const auto p = portion_policy(c.mode);
                return std::make_unique<clocked_worker>(std::move(c), p);
              },
          .make_shard =
              [](half_config c) {
                const auto p = portion_policy(c.mode);
                return make_clocked_shard(std::move(c), p);
              }};
}

}  // namespace troupe
