// Coarse models, for simulations without maths (`--maths none`): the parameters and the work of a
// model in a few buckets, so that a job of a thousand nodes needs only a few roles per node. Roles
// and protocols are the real ones; only the layers differ. Pure. Errors: none; `buckets` is clamped
// to [1, elements].
#pragma once

#include <cstdint>
#include <memory>

#include "runtime/base/result.hpp"
#include "runtime/job/job.hpp"
#include "runtime/model/graph.hpp"

namespace troupe {

// Returns a chain of `buckets` layers "bucket0" ... that ends in a loss. Bucket k has the k-th
// equal share of the trainable elements, regardless of layer boundaries; the sums of elements and
// of flops are those of `g`. A layer's flops belong to its parameters; those of a layer without
// parameters to the parameters before it.
model_graph coarse_graph(const model_graph& g, std::uint32_t buckets);

// Returns the job with a coarse graph, a new plan (fused: one stage per worker), a source without
// data and a sequential sampler, which has no cost.
expected<std::shared_ptr<prepared_job>, diagnostics> make_coarse(const prepared_job& j, std::uint32_t buckets,
                                                                 const std::vector<node_spec>& nodes);

// Returns the job with its own layers, but without data and without evaluations.
expected<std::shared_ptr<prepared_job>, diagnostics> make_counted(const prepared_job& j, const std::vector<node_spec>& nodes);

}  // namespace troupe
