#include "actors/repl/gpu_text.hpp"

#include "actors/repl/text.hpp"
#include "runtime/base/text_table.hpp"
#include "runtime/base/wording.hpp"

namespace troupe {

using namespace repl_text;

namespace {

std::string device_of(const repl_gpu& g) { return "gpu:" + std::to_string(g.number); }
std::string bytes_of(const std::optional<std::uint64_t>& n) { return n ? bytes_text(static_cast<double>(*n)) : std::string(); }
std::string with_unit(const std::optional<double>& x, const char* unit) { return x ? fixed_text(*x, 0) + unit : std::string(); }

std::string memory_of(const repl_gpu& g) {
  const auto total = bytes_text(static_cast<double>(g.memory_total));
  return g.memory_used ? bytes_of(g.memory_used) + " of " + total : total;
}

json_object gpu_object(const repl_gpu& g) {
  json_object o{{"device", device_of(g)}, {"name", g.name}, {"memory_total", g.memory_total}};
  const auto add = [&o](const char* name, const auto& value) {
    if (value) o[name] = *value;
  };
  add("memory_used", g.memory_used);
  add("pool_held", g.held);
  add("pool_in_use", g.in_use);
  add("pool_peak", g.peak);
  add("utilisation", g.utilisation);
  add("memory_utilisation", g.memory_utilisation);
  add("temperature_c", g.temperature);
  add("power_w", g.power);
  if (!g.failure.empty()) o["failure"] = g.failure;
  return o;
}

}  // namespace

json_object gpus_json(const std::vector<repl_gpu>& list) {
  auto all = json_object::array();
  for (const auto& g : list) all.push_back(gpu_object(g));
  return all;
}

std::string gpu_line(const repl_gpu& g) {
  auto text =
      device_of(g) + (g.name.empty() ? "" : " (" + g.name + ")") + ": " + memory_of(g) + (g.memory_used ? " used" : " of memory");
  const auto add = [&text](const std::string& value, const char* what) {
    if (!value.empty()) text += ", " + value + what;
  };
  add(bytes_of(g.held), " held by this process");
  add(with_unit(g.utilisation, " %"), " busy");
  add(with_unit(g.temperature, " C"), "");
  add(g.failure, "");
  return text;
}

std::string gpus_of_nodes_text(const repl_view& v) {
  text_table t({"node", "gpu", "name", "memory used", "held", "in use", "busy", "temperature", "power", ""});
  bool any = false;
  for (const auto& n : v.nodes)
    for (const auto& g : n.gpus) {
      any = true;
      t.add({n.name, device_of(g), g.name, memory_of(g), bytes_of(g.held), bytes_of(g.in_use), with_unit(g.utilisation, " %"),
             with_unit(g.temperature, " C"), with_unit(g.power, " W"), g.failure});
    }
  return any ? "\n\n" + t.text() : std::string();
}

}  // namespace troupe
