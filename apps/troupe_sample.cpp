// troupe sample: text from a trained net.
#include <algorithm>

#include <nlohmann/json.hpp>

#include "apps/troupe_commands.hpp"
#include "ops/device.hpp"
#include "runtime/plain/generate.hpp"

namespace troupe {
int run_sample(const sample_arguments& a, const output& out) {
  auto loaded = load_job(a);
  if (auto* bad = std::get_if<diagnostics>(&loaded)) return out.wrong(*bad);
  auto j = std::get<std::shared_ptr<prepared_job>>(loaded);
  auto from = begin_from_weights(*j, a.weights);
  if (auto* bad = std::get_if<record_error>(&from)) return wrong_file(out, *bad);
  const std::shared_ptr<device> dev = make_cpu_device();
  if (!dev) return out.failed("cpu", "this machine has no CPU that the kernels know");
  auto made = make_generator(*j, j->initial, dev);
  if (auto* bad = std::get_if<diagnostic>(&made)) return out.wrong({*bad});
  auto& g = *std::get<std::unique_ptr<text_generator>>(made);
  const auto& symbols = g.symbols();
  const bool line = a.start.empty() && std::find(symbols.begin(), symbols.end(), "\n") != symbols.end();
  std::vector<std::int32_t> ids;
  std::string why;
  if (!g.encode(a.start.empty() ? (line ? "\n" : symbols[0]) : a.start, ids, why)) return out.wrong("--start", why);
  const auto text = generate(g, ids, a.length, a.temperature, a.seed);
  out.text(a.start + text.text + "\n");
  if (out.json()) out.object({{"event", "sample"}, {"text", a.start + text.text}, {"characters", a.length}, {"nats", text.nats}});
  return exit_done;
}

}  // namespace troupe
