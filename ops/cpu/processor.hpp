// The processor of this machine, for users.
// Errors: none; what the system does not state is empty.  Threads: functions without state.
#pragma once

#include <string>

namespace troupe::cpu {

struct processor_facts {
  std::string name;     // "AMD EPYC 9754 128-Core Processor"
  unsigned cores = 0;   // that this process may use
  std::string kernels;  // the instruction set of make_cpu_device(): "x86-64-v4"
};
processor_facts describe_processor();

std::string processor_name();

// The OpenBLAS that Troupe computes matrix products with.
struct blas_facts {
  std::string kernel;     // "SkylakeX": the processor whose kernels it has chosen
  std::string threading;  // "serial", "pthreads" or "OpenMP"
  std::string version;    // "OpenBLAS 0.3.21"
};
blas_facts describe_blas();

}  // namespace troupe::cpu
