// `troupe device_query`: lists the devices of this machine by the names that job and cluster files
// use. Opens the GPU backend; starts no work on a GPU.
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "apps/cli/command.hpp"
#include "ops/cpu/processor.hpp"
#include "ops/gpu.hpp"
#include "runtime/base/wording.hpp"
#include "runtime/memory/process_memory.hpp"

namespace troupe {
namespace {

using json = nlohmann::ordered_json;

struct query_arguments {};

std::string in_bytes(std::uint64_t n) { return bytes_text(static_cast<double>(n)); }

// Lines of a device: a name, and what is known of it.
class device_lines {
 public:
  explicit device_lines(const std::string& head) : text_(head + "\n") {}
  void add(const char* name, const std::string& value) {
    if (!value.empty()) text_ += "  " + left(name, 14) + value + "\n";
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

template <class T>
void add_known(json& o, const char* name, const std::optional<T>& value) {
  if (value) o[name] = *value;
}
void add_known(json& o, const char* name, const std::string& value) {
  if (!value.empty()) o[name] = value;
}

void show_cpu(const output& out) {
  const auto cpu = cpu::describe_processor();
  const auto memory = memory_of_this_process();
  const auto device = make_cpu_device();
  const auto id = device ? device->numerics_id() : std::string();
  json o{{"event", "device"}, {"device", "cpu:0"}, {"kind", "cpu"}, {"name", cpu.name}, {"cores", cpu.cores}};
  add_known(o, "kernels", cpu.kernels);
  o["memory_total"] = memory.total;
  o["memory_free"] = memory.left;
  add_known(o, "numerics_id", id);
  if (out.json()) return out.object(o);
  device_lines lines("cpu:0  " + cpu.name);
  lines.add("cores", std::to_string(cpu.cores) + " (each further cpu:N in `devices` is one more thread)");
  lines.add("kernels", cpu.kernels);
  lines.add("memory", in_bytes(memory.total) + ", " + in_bytes(memory.left) + " free");
  lines.add("numerics id", id);
  out.text(lines.text());
}

std::string capability(const gpu_facts& f) { return std::to_string(f.major) + "." + std::to_string(f.minor); }

json gpu_json(int number, const gpu_facts& f) {
  json o{{"event", "device"},
         {"device", "gpu:" + std::to_string(number)},
         {"kind", "gpu"},
         {"name", f.name},
         {"compute_capability", capability(f)},
         {"multiprocessors", f.multiprocessors},
         {"clock_mhz", f.clock_mhz},
         {"memory_total", f.memory_total}};
  add_known(o, "memory_free", f.memory_free);
  add_known(o, "numerics_id", f.numerics_id);
  add_known(o, "pci_bus", f.bus);
  add_known(o, "driver", f.driver);
  add_known(o, "driver_cuda", f.driver_cuda);
  add_known(o, "cuda", f.cuda);
  add_known(o, "cublas", f.cublas);
  add_known(o, "cudnn", f.cudnn);
  const auto& s = f.sensors;
  add_known(o, "utilisation", s.utilisation);
  add_known(o, "memory_utilisation", s.memory_utilisation);
  add_known(o, "memory_used", s.memory_used);
  add_known(o, "temperature_c", s.temperature);
  add_known(o, "power_w", s.power);
  add_known(o, "fan_percent", s.fan);
  add_known(o, "ecc_errors", s.uncorrected_errors);
  add_known(o, "processes", s.processes);
  add_known(o, "failure", f.failure);
  return o;
}

// "97 % busy, 61 C, 350 W, 2 processes"; without what is unknown.
std::string sensors_text(const gpu_sensors& s) {
  std::string text;
  const auto add = [&text](const auto& value, const std::string& unit) {
    if (value) text += (text.empty() ? "" : ", ") + fixed(static_cast<double>(*value), 0) + unit;
  };
  add(s.utilisation, " % busy");
  add(s.temperature, " C");
  add(s.power, " W");
  add(s.fan, " % fan");
  add(s.processes, s.processes == 1u ? " process" : " processes");
  add(s.uncorrected_errors, " uncorrected memory errors");
  return text;
}

std::string gpu_text(int number, const gpu_facts& f) {
  device_lines lines("gpu:" + std::to_string(number) + "  " + f.name);
  lines.add("compute", capability(f) + ", " + std::to_string(f.multiprocessors) + " multiprocessors" +
                           (f.clock_mhz > 0 ? ", " + fixed(f.clock_mhz, 0) + " MHz" : ""));
  lines.add("memory", in_bytes(f.memory_total) + (f.memory_free ? ", " + in_bytes(*f.memory_free) + " free" : ""));
  lines.add("sensors", sensors_text(f.sensors));
  lines.add("driver", (f.driver.empty() ? "" : f.driver + ", ") + "supports CUDA " + f.driver_cuda);
  lines.add("libraries", "CUDA " + f.cuda + ", cuBLAS " + f.cublas + ", cuDNN " + f.cudnn);
  lines.add("pci bus", f.bus);
  lines.add("numerics id", f.numerics_id);
  lines.add("failure", f.failure);
  return lines.text();
}

void show_gpu(int number, const output& out) {
  gpu_facts f;
  try {
    f = describe_gpu(number);
  } catch (const std::exception& e) {
    const auto name = "gpu:" + std::to_string(number);
    if (out.json()) return out.object({{"event", "device"}, {"device", name}, {"kind", "gpu"}, {"failure", e.what()}});
    return out.text(name + "  cannot be described: " + e.what() + "\n");
  }
  if (out.json()) return out.object(gpu_json(number, f));
  out.text(gpu_text(number, f));
}

int run_query(const query_arguments&, const output& out) {
  show_cpu(out);
  std::string why;
  const int gpus = count_gpus(why);
  for (int n = 0; n < gpus; ++n) show_gpu(n, out);
  if (out.json()) {
    json done{{"event", "done"}, {"gpus", gpus}};
    add_known(done, "why_no_gpu", why);
    out.object(done);
  } else if (gpus == 0) {
    out.text("no GPU: " + why + "\n");
  }
  return exit_done;
}

void add_query_options(CLI::App& c, query_arguments&) { json_option(c); }

}  // namespace

cli_command device_query_command() {
  return make_command<query_arguments>("device_query",
                                       "List the CPU and GPUs of this machine, as `devices` of a job file names them",
                                       "  troupe device_query\n  troupe device_query --json", add_query_options, run_query);
}

}  // namespace troupe
