// The process, its memory, GPUs and certificates.
#include "actors/metrics/exposition.hpp"
#include "actors/metrics/page.hpp"
#include "actors/metrics/process_facts.hpp"
#include "runtime/base/version.hpp"
#include "runtime/memory/process_memory.hpp"

namespace troupe {
namespace {

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
