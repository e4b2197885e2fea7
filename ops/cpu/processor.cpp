#include "ops/cpu/processor.hpp"

#include <cblas-openblas.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>

#include "ops/device.hpp"

namespace troupe::cpu {
namespace {

// By the affinity of the process. 0: unknown, because the machine has more than CPU_SETSIZE cores.
unsigned usable_cores() {
  cpu_set_t here;
  return ::sched_getaffinity(0, sizeof here, &here) == 0 ? static_cast<unsigned>(CPU_COUNT(&here)) : 0;
}

std::string contents_of_file(const std::string& file) {
  std::ifstream in(file);
  std::ostringstream all;
  all << in.rdbuf();
  return all.str();
}

// The share in "QUOTA PERIOD", both in microseconds. 0: "max PERIOD", "-1 PERIOD" or no numbers.
double quota_in(const std::string& text) {
  std::istringstream in(text);
  long quota = 0, period = 0;
  return in >> quota >> period && quota > 0 && period > 0 ? static_cast<double>(quota) / static_cast<double>(period) : 0;
}

// Whether a line "NUMBER:CONTROLLER,CONTROLLER...:PATH" of cgroup v1 has the controller "cpu".
bool has_cpu_controller(const std::string& line) {
  const auto first = line.find(':'), last = line.find(':', first + 1);
  if (first == std::string::npos || last == std::string::npos) return false;
  std::istringstream controllers(line.substr(first + 1, last - first - 1));
  for (std::string word; std::getline(controllers, word, ',');)
    if (word == "cpu") return true;
  return false;
}

std::string best_kernels() {
  for (const char* isa : {"x86-64-v4-amx", "x86-64-v4", "x86-64-v3", "baseline"})
    if (make_cpu_device(isa)) return isa;
  return {};
}

}  // namespace

std::string processor_name() {
  std::ifstream f("/proc/cpuinfo");
  for (std::string line; std::getline(f, line);)
    if (line.rfind("model name", 0) == 0)
      if (const auto at = line.find(": "); at != std::string::npos) return line.substr(at + 2);
  return {};
}

double cgroup_cores_by(const std::function<std::string(const std::string& file)>& read) {
  std::istringstream groups(read("/proc/self/cgroup"));
  double least = 0;
  for (std::string line; std::getline(groups, line);) {
    const auto last = line.rfind(':');
    if (last == std::string::npos) continue;
    const bool v2 = line.starts_with("0::"), v1 = has_cpu_controller(line);
    auto path = line.substr(last + 1);
    for (; v1 || v2;) {
      const auto folder = std::string("/sys/fs/cgroup") + (v2 ? "" : "/cpu") + (path == "/" ? "" : path) + "/";
      const auto cores =
          quota_in(v2 ? read(folder + "cpu.max") : read(folder + "cpu.cfs_quota_us") + " " + read(folder + "cpu.cfs_period_us"));
      if (cores > 0 && (least == 0 || cores < least)) least = cores;
      if (path.empty() || path == "/") break;
      path.resize(path.rfind('/') == std::string::npos ? 0 : path.rfind('/'));
    }
  }
  return least;
}

double cgroup_cores() { return cgroup_cores_by(contents_of_file); }

unsigned usable_threads() {
  const auto known = usable_cores();
  const auto cores = known > 0 ? known : static_cast<unsigned>(std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN)));
  const auto quota = cgroup_cores();
  return quota > 0 && quota < cores ? std::max(1U, static_cast<unsigned>(std::lround(quota))) : cores;
}

processor_facts describe_processor() { return {processor_name(), usable_cores(), best_kernels()}; }

blas_facts describe_blas() {
  const std::string config = openblas_get_config();  // "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH ..."
  const auto version_ends = config.find(' ', config.find(' ') + 1);
  const int threading = openblas_get_parallel();
  return {openblas_get_corename(),
          threading == OPENBLAS_SEQUENTIAL ? "serial"
          : threading == OPENBLAS_OPENMP   ? "OpenMP"
                                           : "pthreads",
          config.substr(0, version_ends)};
}

}  // namespace troupe::cpu
