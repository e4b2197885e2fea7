// The head of a run for users: what runs, in a few lines. `troupe train` prints it; a cluster's
// coordinator sends it to the client that submitted the job.
// Errors: none.  Threads: functions without state.
#pragma once

#include <string>
#include <vector>

#include "runtime/job/job.hpp"

namespace troupe {

struct head_line {
  std::string label, text;  // "data", "idx /data/mnist: 60,000 examples of 1x28x28, ..."
};
std::string text_of(const head_line& l);       // "label\ttext", for messages
head_line head_line_of(const std::string& s);  // the inverse; without a tab all of it is the text

// Lines "net", "data", "training" and "update": sizes, source, topology and update rule of the job.
// The device, its kernels and the run folder are the caller's.
std::vector<head_line> job_head(const prepared_job& j);

// "lenet-fashion: 431,080 parameters in 9 layers; 1 worker, ...": one line, with its end of line.
std::string job_summary(const prepared_job& j);

}  // namespace troupe
