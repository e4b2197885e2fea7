// Mode `gossip`: averaging without a centre (GoSGD: Blot, Picard, Cord, Thome 2016; push-sum of
// Kempe, Dobra, Gehrke 2003).
//
// Worker sync. Each worker has its own weights w and, per layer, a mass m, initially 1/N for N
// workers. Every `every` steps, layer by layer, it halves m and sends a share (w, m) to one other
// worker, drawn from (seed, worker, step). The receiver of a share (w', m') sets w = (m w + m' w')
// / (m + m') and m = m + m'. Workers never wait for each other.
//
// Boundaries. The coordinator sends the workers the next boundary (`grant`). A worker that has made
// all steps below it is idle: it announces `rests` to all others, sends its whole mass to a worker
// that is not known to be idle, and forwards every share that still arrives. So mass moves to the
// workers that still train, however different their speeds are. Otherwise the mean would keep
// weights that stopped early, and could not reach the point to which the others converge. When all
// workers are idle, mass stays where it arrives. When training continues beyond the boundary, each
// worker first sends every other an equal part of its mass.
//
// Shard sync. Provides the first weights. On a collection it requests the workers' copies
// (`want_copy`) and takes their mean, weighted by mass. At a flush the workers send their copies
// unasked.
//
// Messages per `every` steps and worker: one share per layer, to one other worker. Bytes: the
// layer. At a boundary: one `rests` to every other worker, and per layer one share for the worker's
// own mass and one for each share that is forwarded.
//
// Invariants:
//   * the masses, including those in flight, sum to 1, so the sum of m w changes by gradient steps
//     only;
//   * when all others are idle and nothing is in flight, the steps of the remaining worker are made
//     with mass 1;
//   * a share is merged or forwarded once: a second one with the same sender, layer, step and count
//     is dropped;
//   * forwarding terminates: shares are never sent to a peer known to be idle, and idle peers
//     announce it;
//   * after a flush nothing is in flight: each worker sends `all_said` to every other and forwards
//     no share after it.
#include "runtime/sync/gossip.hpp"

#include "ops/option_specs.hpp"
#include "runtime/sync/stock.hpp"

namespace troupe {

sync_mode gossip_mode() {
  return {.name = "gossip",
          .doc =
              "Averaging without a centre: every `every` steps a worker sends its weights and half of its mass to another "
              "worker, which averages them with its own. Blot et al. 2016.",
          .specs = {integer_option("every", 1, "number of steps between two shares of a worker; not used if `when` is set", 1)},
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
