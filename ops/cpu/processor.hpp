// The processor of this machine, and the share of it that this process may use.
// Errors: none; what the system does not state is empty.  Threads: functions without state.
#pragma once

#include <functional>
#include <string>

namespace troupe::cpu {

struct processor_facts {
  std::string name;     // "AMD EPYC 9754 128-Core Processor"
  unsigned cores = 0;   // that this process may use
  std::string kernels;  // the instruction set of make_cpu_device(): "x86-64-v4"
};
processor_facts describe_processor();

// Cores that the cgroups of this process (v1 and v2, up to the root) allow it by a quota of time;
// 0: no limit.
double cgroup_cores();
// The same, with the contents of files from `read`; empty: there is no such file.
double cgroup_cores_by(const std::function<std::string(const std::string& file)>& read);

// Threads that can compute at the same time, at least 1: the cores of the process's CPU affinity
// (taskset, cpusets), or fewer if a cgroup's quota does not allow as many. The default number of
// threads.
unsigned usable_threads();

std::string processor_name();

// The OpenBLAS that Troupe computes matrix products with.
struct blas_facts {
  std::string kernel;     // "SkylakeX": the processor whose kernels it has chosen
  std::string threading;  // "serial", "pthreads" or "OpenMP"
  std::string version;    // "OpenBLAS 0.3.21"
};
blas_facts describe_blas();

}  // namespace troupe::cpu
