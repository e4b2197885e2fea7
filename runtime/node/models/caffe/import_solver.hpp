// Caffe's solver as the tables [train.dynamics], [train.finish], [eval], [checkpoint] of a job.
//   lr_policy  fixed, step, exp, inv, multistep, poly -> schedule
//   type       SGD, Nesterov, AdaGrad, RMSProp, AdaDelta, Adam -> rule
//   iter_size  packets of a batch that is as many times as large
// Threads: pure functions.
#pragma once

#include "runtime/node/models/caffe/fields.hpp"
#include "runtime/node/models/caffe/job_model.hpp"

namespace troupe::caffe {

// Whether the message is a SolverParameter.
bool is_solver(const proto_field& tree);

void read_solver(const proto_field& tree, job_model& job, findings& found);

// Momentum, a rate and a number of steps to begin with, and a comment that says so.
void assume_solver(job_model& job);

}  // namespace troupe::caffe
