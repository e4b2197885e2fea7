// run.json before the run: the job and the machine.
#include <unistd.h>

#include <fstream>

#include "ops/cpu/processor.hpp"
#include "runtime/base/version.hpp"
#include "runtime/job/amend.hpp"
#include "runtime/node/runs/run_recorder.hpp"

namespace troupe {
namespace {

std::string cpu_model() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);)
    if (const auto colon = line.find(": "); line.starts_with("model name") && colon != std::string::npos)
      return line.substr(colon + 2);
  return {};
}

std::string host_name() {
  char text[256] = {};
  return ::gethostname(text, sizeof text - 1) == 0 ? text : std::string();
}

constexpr std::uint64_t histogram_steps = 500;
constexpr double checkpoint_seconds = 300;

}  // namespace

void add_checkpoint_interval(checkpoint_spec& c) {
  if (c.every_steps == 0 && c.every_seconds == 0 && !c.never) c.every_seconds = checkpoint_seconds;
}

void prepare_for_run_folder(prepared_job& j) {
  j.keeps_best = true;
  j.histograms_every = histogram_steps;
  add_checkpoint_interval(j.spec.checkpoint);
}

run_info facts_of_run(const prepared_job& j, const std::string& numerics) {
  run_info r;
  r.name = j.spec.name;
  r.job_file = j.spec.file;
  r.seed = j.spec.seed;
  r.mode = mode_text(j);
  r.workers = j.plan.ranges.size();
  r.packets = j.plan.packets;
  r.parameters = static_cast<std::uint64_t>(j.graph.parameter_count);
  r.batch = static_cast<std::uint64_t>(j.spec.data.batch);
  r.last_step = j.last_step;
  r.steps_per_epoch = j.steps_per_epoch;
  r.version = troupe_version;
  r.host = host_name();
  r.cpu = cpu_model();
  r.blas_kernel = numerics;
  r.cores = cpu::usable_threads();
  r.devices = j.nodes.front().devices;
  return r;
}

}  // namespace troupe
