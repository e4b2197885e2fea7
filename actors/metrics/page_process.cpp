// The process, its memory, GPUs and certificates.
#include <sys/resource.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "actors/metrics/exposition.hpp"
#include "actors/metrics/page.hpp"
#include "runtime/base/version.hpp"
#include "runtime/memory/process_memory.hpp"

namespace troupe {
namespace {

// CPU time, memory and file descriptors of this process, from /proc and getrusage().
struct process_facts {
  double cpu_seconds = 0;
  double started = 0;                             // seconds since 1970
  std::uint64_t resident = 0, address_space = 0;  // bytes
  std::uint64_t open_files = 0, max_files = 0, threads = 0;
};

double boot_time() {
  std::ifstream in("/proc/stat");
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("btime ")) return static_cast<double>(std::stoull(line.substr(6)));
  return 0;
}

// Field `n` of /proc/self/stat, counted from 3 after the program's name, which may have spaces.
std::uint64_t stat_field(const std::string& text, int n) {
  std::istringstream in(text.substr(std::min(text.rfind(')') + 1, text.size())));
  std::string word;
  for (int i = 3; i <= n; ++i) in >> word;
  return word.empty() ? 0 : std::stoull(word);
}

process_facts facts_of_this_process() {
  process_facts f;
  rusage u{};
  if (::getrusage(RUSAGE_SELF, &u) == 0)
    f.cpu_seconds = static_cast<double>(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
                    static_cast<double>(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e-6;
  rlimit l{};
  if (::getrlimit(RLIMIT_NOFILE, &l) == 0) f.max_files = l.rlim_cur;
  try {
    std::ifstream in("/proc/self/stat");
    std::string text;
    std::getline(in, text);
    f.threads = stat_field(text, 20);
    f.started = boot_time() + static_cast<double>(stat_field(text, 22)) / static_cast<double>(::sysconf(_SC_CLK_TCK));
    f.address_space = stat_field(text, 23);
    f.resident = stat_field(text, 24) * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
    for ([[maybe_unused]] const auto& e : std::filesystem::directory_iterator("/proc/self/fd")) ++f.open_files;
  } catch (const std::exception&) {
    // The values that were read remain.
  }
  return f;
}

void add_memory(exposition& x, const metrics_facts& f) {
  const auto m = memory_of_this_process();
  if (m.total > 0) {
    x.add("troupe_memory_limit_bytes", real(m.total));
    x.add("troupe_memory_available_bytes", real(m.left));
  }
  for (const auto& p : f.pools) {
    x.add("troupe_pool_held_bytes", {p.name}, real(p.held));
    if (p.peak == 0) continue;
    x.add("troupe_pool_used_bytes", {p.name}, real(p.used));
    x.add("troupe_pool_peak_bytes", {p.name}, real(p.peak));
  }
}

void add_gpu(exposition& x, const repl_gpu& g) {
  const auto id = std::to_string(g.number);
  const auto add = [&](const char* name, const auto& value, double unit = 1) {
    if (value) x.add(name, {id}, static_cast<double>(*value) * unit);
  };
  x.add("troupe_gpu_info", {id, g.name}, 1);
  x.add("troupe_gpu_up", {id}, g.failure.empty() ? 1 : 0);
  if (g.memory_total > 0) x.add("troupe_gpu_memory_size_bytes", {id}, real(g.memory_total));
  add("troupe_gpu_memory_used_bytes", g.memory_used);
  add("troupe_gpu_pool_held_bytes", g.held);
  add("troupe_gpu_pool_used_bytes", g.in_use);
  add("troupe_gpu_pool_peak_bytes", g.peak);
  add("troupe_gpu_utilization_ratio", g.utilisation, 0.01);
  add("troupe_gpu_memory_utilization_ratio", g.memory_utilisation, 0.01);
  add("troupe_gpu_temperature_celsius", g.temperature);
  add("troupe_gpu_power_watts", g.power);
}

}  // namespace

void add_process(exposition& x, const metrics_facts& f) {
  x.add("troupe_build_info", {troupe_version, f.view.node}, 1);
  const auto p = facts_of_this_process();
  x.add("process_cpu_seconds_total", p.cpu_seconds);
  x.add("process_resident_memory_bytes", real(p.resident));
  x.add("process_virtual_memory_bytes", real(p.address_space));
  x.add("process_open_fds", real(p.open_files));
  x.add("process_max_fds", real(p.max_files));
  x.add("process_start_time_seconds", p.started);
  x.add("process_threads", real(p.threads));
  add_memory(x, f);
  for (const auto& g : f.view.gpus) add_gpu(x, g);
  for (const auto& c : f.certificates)
    x.add("troupe_certificate_expiry_timestamp_seconds", {c.name},
          std::chrono::duration<double>(c.until.time_since_epoch()).count());
}

}  // namespace troupe
