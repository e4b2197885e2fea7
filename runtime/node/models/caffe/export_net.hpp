// Writes a job's graph and weights as a net of Caffe: a layer Input for the data, a layer for each
// of Troupe's (two for an affine batch_norm), and their blobs.
// Errors: each layer that Caffe lacks, with its type.
// Threads: one export, one thread.
#pragma once

#include "runtime/node/models/model_format.hpp"

namespace troupe::caffe {

expected<exported_model, diagnostics> export_net(const prepared_job& job, const named_tensors& weights, const name_pairs& names);

}  // namespace troupe::caffe
