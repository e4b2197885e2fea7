// A model made coarse, for simulations that count and do not compute (`--maths none`): its
// parameters and its work in a few buckets, as gradients travel in practice, so that a job of a
// thousand nodes needs a handful of roles per node. Roles and protocols stay the real ones; only
// the layers are others. Pure. Errors: none; `buckets` is clamped to [1, elements].
#pragma once

#include <cstdint>
#include <memory>

#include "runtime/job/job.hpp"
#include "runtime/model/graph.hpp"

namespace troupe {

// A chain of `buckets` layers "bucket0" ... that ends in a loss. Bucket k holds the k-th equal
// share of the trainable elements, cut wherever that falls; the sums of elements and of flops are
// those of `g`. A layer's flops go with its parameters; those of layers without parameters with the
// parameters before them.
model_graph coarse_graph(const model_graph& g, std::uint32_t buckets);

// The same for a prepared job: coarse graph, a plan anew (fused: one stage a worker), and a sampler
// that costs nothing.
std::variant<std::shared_ptr<prepared_job>, diagnostics> make_coarse(const prepared_job& j, std::uint32_t buckets,
                                                                     const std::vector<node_spec>& nodes);

// The job with its own layers, and without data: nothing is read, and there is nothing to evaluate
// on, as in a coarse one.
std::variant<std::shared_ptr<prepared_job>, diagnostics> make_counted(const prepared_job& j, const std::vector<node_spec>& nodes);

}  // namespace troupe
