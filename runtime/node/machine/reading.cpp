#include "runtime/node/machine/reading.hpp"

#include <sys/resource.h>
#include <sys/timex.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <thread>
#include <tuple>

#include "ops/cpu/processor.hpp"
#include "runtime/base/version.hpp"
#include "runtime/memory/process_memory.hpp"
#include "runtime/node/machine/speed.hpp"

namespace troupe::machine {
namespace {

using ticks = std::chrono::steady_clock;

constexpr std::uint64_t memory_for_speed = std::uint64_t{256} << 20;  // below it, nothing is measured

std::string contents(const std::string& file) {
  std::ifstream in(file);
  std::ostringstream all;
  all << in.rdbuf();
  return all.str();
}

std::string first_word(const std::string& file) {
  std::string word;
  std::istringstream(contents(file)) >> word;
  return word;
}

// The number behind `name:` in a file such as /proc/meminfo, in bytes.
std::uint64_t kilobytes(const std::string& text, const std::string& name) {
  const auto at = text.find("\n" + name + ":");
  return at == std::string::npos ? 0 : std::strtoull(text.c_str() + at + name.size() + 2, nullptr, 10) * 1024;
}

std::vector<std::string> extensions() {
  std::vector<std::string> list;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) list.emplace_back("AVX2");
  if (__builtin_cpu_supports("avx512f")) list.emplace_back("AVX-512");
#endif
  std::istringstream lines(contents("/proc/cpuinfo"));
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with("flags")) {
      if ((line + " ").find(" amx_tile ") != std::string::npos) list.emplace_back("AMX");
      break;
    }
  return list;
}

processor read_processor() {
  const auto cpu = cpu::describe_processor();
  const auto blas = cpu::describe_blas();
  processor p;
  p.name = cpu.name, p.cores = cpu.cores, p.kernels = cpu.kernels;
  p.installed = std::thread::hardware_concurrency();
  if (const auto configured = ::sysconf(_SC_NPROCESSORS_ONLN); configured > 0) p.installed = static_cast<unsigned>(configured);
  p.quota = cpu::cgroup_cores();
  p.extensions = extensions();
  p.blas = blas.version, p.blas_kernel = blas.kernel, p.blas_threading = blas.threading;
  if (const char* set = std::getenv("OPENBLAS_CORETYPE")) p.coretype = set;
  return p;
}

memory read_memory() {
  const auto m = memory_of_this_process();
  const auto info = "\n" + contents("/proc/meminfo");
  memory r;
  r.total = m.total, r.free = m.left, r.bound_by = m.of;
  r.swap_total = kilobytes(info, "SwapTotal");
  r.swap_used = r.swap_total - std::min(r.swap_total, kilobytes(info, "SwapFree"));
  r.overcommit = std::atoi(contents("/proc/sys/vm/overcommit_memory").c_str());
  return r;
}

clock read_clock() {
  constexpr int readings = 2000;
  clock c;
  c.source = first_word("/sys/devices/system/clocksource/clocksource0/current_clocksource");
  const auto begin = ticks::now();
  for (int i = 1; i < readings; ++i) (void)ticks::now();
  c.reading = std::chrono::duration<double>(ticks::now() - begin).count() / readings;
  timex t{};
  const int state = ::adjtimex(&t);
  c.known = state >= 0;
  c.synchronised = state >= 0 && state != TIME_ERROR && (t.status & STA_UNSYNC) == 0;
  c.time = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  return c;
}

limits read_limits() {
  const auto of = [](auto what) {
    rlimit r{};
    return ::getrlimit(what, &r) == 0 ? std::pair<std::uint64_t, std::uint64_t>(r.rlim_cur, r.rlim_max)
                                      : std::pair<std::uint64_t, std::uint64_t>();
  };
  static_assert(RLIM_INFINITY == ~rlim_t{0});  // as facts.hpp says
  limits l;
  std::tie(l.open_files, l.most_open_files) = of(RLIMIT_NOFILE);
  l.locked_memory = of(RLIMIT_MEMLOCK).first;
  l.core_file = of(RLIMIT_CORE).first;
  return l;
}

unsigned useful_threads(const processor& p) {
  const auto cores = std::max(1U, p.cores);
  return p.quota > 0 ? std::clamp(static_cast<unsigned>(p.quota + 0.5), 1U, cores) : cores;
}

}  // namespace

facts read_facts(const wanted& w) {
  facts f;
  f.version = troupe_version;
  f.processor = read_processor();
  f.memory = read_memory();
  f.clock = read_clock();
  f.limits = read_limits();
  f.interfaces = read_interfaces();
  f.nvidia_driver = !first_word("/proc/driver/nvidia/version").empty();
  for (const auto& [purpose, path] : w.folders) f.folders.push_back(read_folder(purpose, path, w.disks));
  if (!w.speed)
    f.speed.skipped = w.why_no_speed;
  else if (f.memory.total > 0 && f.memory.free < memory_for_speed)
    f.speed.skipped = "too little memory is free";
  else
    f.speed = measure_speed(useful_threads(f.processor));
  return f;
}

}  // namespace troupe::machine
