// The lines that `troupe train` prints before a run: the job's own (runtime/job/job_head.hpp), then
// the devices with their kernels, the run folder, and the state that the run starts from. For a job
// of a cluster: its number and its place in the queue.
#pragma once

#include <string>
#include <vector>

#include "actors/control/client/client.hpp"
#include "ops/device_descriptors.hpp"
#include "runtime/job/job_head.hpp"

namespace troupe {

struct run_facts {
  device_list devices;     // of the job, as make_devices() returns them
  unsigned threads = 0;    // 0: one per core
  std::string run_folder;  // empty: none
  std::string from;        // checkpoint or weights that the run starts from; empty: the fillers
};

std::vector<head_line> run_head(const prepared_job& j, const run_facts& f);
// Of a job on the cluster of this file, as its coordinator accepted it.
std::vector<head_line> cluster_head(const accepted_job& j, const std::string& cluster);

// "openblas-SkylakeX/avx512/conv1" -> "OpenBLAS SkylakeX, avx512": the parts of a device's numerics
// id that a user knows.
std::string kernels_text(const std::string& numerics);

}  // namespace troupe
