// What `troupe train` was asked, for its two ways: in this process (train.cpp), or on a cluster
// (train_cluster.cpp), where `troupe attach` follows a job as `troupe train` does.
#pragma once

#include <string>

#include "actors/control/client/client.hpp"
#include "apps/troupe_job.hpp"
#include "apps/troupe_output.hpp"

namespace troupe {

struct train_arguments : job_arguments {
  std::string out;         // final weights
  std::string weights;     // begin from
  std::string match;       // of weights: all | names; empty: as the job has it
  std::string resume;      // continue
  std::string checkpoint;  // empty: <job>.checkpoint.safetensors
  std::string mortem;      // where a failed run leaves a folder; empty: post-mortem/ beside the checkpoint; "none": nowhere
  std::string cluster;     // a cluster file: submit there
  unsigned threads = 0;
};

int run_train_cluster(const train_arguments& a, const output& out);
// Submits or attaches, and prints what the job says until it is over or a signal detaches.
// `cluster`: the cluster's file, for messages.
int follow_on_cluster(const cluster_submission& s, const std::string& cluster, const output& out);

}  // namespace troupe
