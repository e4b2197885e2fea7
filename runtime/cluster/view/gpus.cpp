#include "runtime/cluster/view/gpus.hpp"

#include <algorithm>
#include <set>

#include "runtime/base/printable.hpp"

namespace troupe {
namespace {

template <class T>
void limit(std::optional<T>& v, T least, T most) {
  if (v && !(*v >= least && *v <= most)) v.reset();
}

repl_gpu plausible_gpu(repl_gpu g) {
  constexpr std::uint64_t none = 0, most_bytes = std::uint64_t{1} << 60;
  g.name = printable(g.name.substr(0, max_gpu_name));
  g.failure = printable(g.failure.substr(0, max_gpu_failure));
  if (g.memory_total > most_bytes) g.memory_total = 0;
  limit(g.memory_used, none, most_bytes);
  for (auto* v : {&g.held, &g.in_use, &g.peak}) limit(*v, none, most_bytes);
  limit(g.utilisation, 0.0, 100.0);
  limit(g.memory_utilisation, 0.0, 100.0);
  limit(g.temperature, -100.0, 300.0);
  limit(g.power, 0.0, 1e5);
  return g;
}

}  // namespace

std::vector<repl_gpu> plausible(const std::vector<repl_gpu>& reported) {
  std::vector<repl_gpu> all;
  std::set<std::uint32_t> numbers;
  for (const auto& g : reported) {
    if (all.size() == max_gpus_shown) break;
    if (g.number <= 9999 && numbers.insert(g.number).second) all.push_back(plausible_gpu(g));
  }
  return all;
}

}  // namespace troupe
