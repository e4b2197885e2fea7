// gossip: averaging without a centre (GoSGD: Blot, Picard, Cord, Thome 2016; the sums and weights
// of Kempe, Dobra, Gehrke 2003).
//
// Worker half. Every worker has weights w and, per layer, a mass m; all masses are 1/N at first.
// After every `every` steps it halves its mass and sends (w, m) to one other worker, drawn from
// (seed, worker, step). Who receives (w', m') takes w = (m w + m' w') / (m + m'), m = m + m'.
// Nobody waits for anybody.
//
// Who has made all steps up to the boundary that the coordinator told it rests: it tells all
// others, gives its whole mass to one that still trains, and passes on what reaches it. So mass is
// where steps are made, however unlike the workers' speeds are: a mean with weights that stopped
// early would never come to where the others go. When all rest, what is under way stays where it
// arrives. A worker that trains on behind the boundary first gives every other an equal part of
// what it has.
//
// Shard half. Gives the first weights; else it is only asked for the mean: on a collection it asks
// all workers for their copies, and when training settles they send them.
//
// Messages every `every` steps, per worker: one per layer, to another worker. Bytes: the layer. At
// a boundary: a word to every other worker, and per layer a message for the mass and for each that
// comes later.
//
// Invariants:
//   * the masses, those under way included, sum to 1, and so the sum of m w changes by gradient
//     steps only;
//   * when all others rest and nothing is under way, the steps of the one that trains are made with
//     mass 1;
//   * a message is merged or passed on once: a second one of the same worker, layer, step and count
//     is ignored;
//   * nothing is passed on for ever: who passes on knows of nobody that it rests to whom it gives,
//     and all who rest say so;
//   * settling ends with nothing under way: each worker tells every other that it has said all, and
//     passes on nothing behind that.
#include "runtime/sync/gossip.hpp"

#include "ops/option_specs.hpp"
#include "runtime/sync/stock.hpp"

namespace troupe {

sync_mode gossip_mode() {
  return {.name = "gossip",
          .doc =
              "No centre: every `every` steps a worker sends its weights and half its mass to another, which averages. Blot et al. "
              "2016.",
          .specs = {integer_option("every", 1, "steps between two messages of a worker", 1)},
          .takes_when = true,
          .sends_layers = true,
          .rests = true,
          .left = survivor_rule::newest,
          .check =
              [](const options&, const job_spec&, const job_plan& p) {
                one_centre(p, "gossip");
                no_replicas(p, "gossip");
              },
          .make_worker = [](sync_config c) { return make_gossip_worker(std::move(c)); },
          .make_shard = [](sync_config c) { return make_gossip_shard(std::move(c)); }};
}

}  // namespace troupe
