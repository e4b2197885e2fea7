#include "apps/troupe_convolutions.hpp"

#include <algorithm>

#include "apps/troupe_job.hpp"
#include "ops/device.hpp"
#include "runtime/record/checkpoint.hpp"

namespace troupe {
namespace {

// The convolution algorithms that the run of this checkpoint had chosen. Nullopt: it had not chosen
// any.
expected<std::optional<conv_table>, record_error> kept_choice(const std::string& file) {
  auto read = load_checkpoint(file);
  if (!read) return unexpected(std::move(read).error());
  const auto text = kept_convolutions(read->extra);
  if (text.empty()) return std::optional<conv_table>();
  auto table = conv_table_from(text);
  if (!table) return unexpected(record_error{file, {}, "its list of convolution algorithms is invalid"});
  return table;
}

}  // namespace

std::optional<int> choose_algorithms(std::shared_ptr<prepared_job>& j, device& d, const output& out, const std::string& resume,
                                     std::vector<timed_pass>* times) {
  if (j->spec.convolution != "measured") return std::nullopt;
  if (!resume.empty()) {
    auto kept = kept_choice(resume);
    if (!kept) return wrong_file(out, kept.error());
    if (const auto& table = *kept) {
      auto made = with_convolutions(*j, *table);
      if (!made) return out.wrong(made.error());
      j = *made;
      return std::nullopt;
    }
  }
  if (d.kind() != device_kind::cpu) return std::nullopt;  // the algorithms and their names are the CPU's
  auto chosen = resolve_convolutions(j, d);
  if (!chosen) return out.wrong(chosen.error());
  auto& s = *chosen;
  for (const auto& w : s.warnings) out.remark(w);
  j = s.job;
  if (times) *times = std::move(s.times);
  return std::nullopt;
}

std::vector<pass_entry> pass_entries(const prepared_job& j, std::uint32_t layer, const device& d,
                                     const std::vector<timed_pass>& times) {
  std::vector<pass_entry> list;
  for (const auto& task : conv_tasks(j.graph)) {
    if (task.layer != layer) continue;
    const auto a = d.algorithm_on(task.geometry, task.pass);
    const bool as_lowering1 = j.spec.type() == dtype::f64 && !has_f64(a);
    const bool on_tiles = j.spec.type() == dtype::bf16 && d.numerics_id().ends_with("/amx");
    pass_entry t{task.pass, on_tiles ? "tiles of bf16" : name_of(as_lowering1 ? conv_algorithm::lowering1 : a), {}};
    for (const auto& m : times)
      if (m.task.layer == layer && m.task.pass == task.pass)
        for (const auto& [one, ms] : m.ms) t.ms.emplace_back(name_of(one), ms);
    std::sort(t.ms.begin(), t.ms.end(), [](const auto& x, const auto& y) { return x.second < y.second; });
    list.push_back(std::move(t));
  }
  return list;
}

}  // namespace troupe
