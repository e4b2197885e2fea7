// Options of `troupe train`, which trains in this process (train.cpp) or on a cluster
// (train_cluster.cpp). `troupe attach` shares the function that follows a job of a cluster.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "actors/control/client/client.hpp"
#include "apps/cli/output.hpp"
#include "apps/commands/job.hpp"
#include "ops/device_descriptors.hpp"
#include "runtime/node/runs/run_recorder.hpp"

namespace troupe {

struct train_arguments : job_arguments {
  std::string out;         // file for the final weights
  std::string weights;     // weights to start from
  std::string match;       // with weights: all | names; empty: the job's value
  std::string resume;      // checkpoint to resume from
  std::string checkpoint;  // empty: <job>.checkpoint.safetensors
  std::string mortem;      // folder for post-mortems; empty: post-mortem/ next to the checkpoint; "none": do not write one
  std::string cluster;     // cluster file; empty: train in this process
  std::string machine;     // file with measured rates for reducer "auto"; empty: the assumed ones
  bool no_run = false;     // make no run folder
  bool record = false;     // record the messages, for `troupe replay`
  std::string metrics;     // PORT or HOST:PORT of /metrics; empty: none
  std::string trace;       // file for a trace of the run; empty: none
  std::string page;        // PORT or HOST:PORT of the browser page; empty: none
  unsigned threads = 0;
};

// A job that is ready to be trained in this process.
struct training {
  std::shared_ptr<prepared_job> job;
  device_list devices;
  std::unique_ptr<run_recorder> record;  // writes the run folder; null: none
  std::string checkpoint_folder;         // empty: checkpoints go to one file
};
// Checks --metrics and --page before a run folder is made. Returns the exit code of an address that
// cannot be served.
std::optional<int> check_addresses(const train_arguments& a, const output& out);
int train_here(training t, const train_arguments& a, const output& out);
int run_train_cluster(const train_arguments& a, const output& out);
// Submits or attaches, and prints the job's events until it is over or a signal detaches; with
// `only_prints` also until the reader of stdout goes away. `cluster`: name of the cluster file, for
// messages.
int follow_on_cluster(const cluster_submission& s, const std::string& cluster, bool only_prints, const output& out);

}  // namespace troupe
