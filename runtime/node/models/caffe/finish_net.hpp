// The last steps of an import, on the complete list of layers.
#pragma once

#include "runtime/node/models/caffe/fields.hpp"
#include "runtime/node/models/caffe/job_model.hpp"

namespace troupe::caffe {

// Merges each batch_norm with the scale that follows, leaves out layers whose outputs nothing uses,
// and adds a loss and an accuracy to a net that has no loss.
void finish_layers(job_model& job, findings& found);

// The number of classes: the features of the layer whose scores the first loss takes; 10 if
// unknown.
std::int64_t classes_of(const job_model& job);

}  // namespace troupe::caffe
