#include "apps/commands/extend_run.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "runtime/base/number_text.hpp"
#include "runtime/base/shell_word.hpp"

namespace troupe {

std::string how_to_extend(const run_info& run, const prepared_job& j, const std::string& resume,
                          const std::vector<std::string>& overrides) {
  const auto& f = j.spec.train.finish;
  const auto per_epoch = j.steps_per_epoch;
  std::vector<std::pair<std::string, std::uint64_t>> later;
  const auto reached = [&](const std::optional<std::int64_t>& most, std::uint64_t steps_of_one) {
    return most && steps_of_one > 0 && static_cast<std::uint64_t>(*most) <= run.steps / steps_of_one;
  };
  if (reached(f.epochs, per_epoch)) later.emplace_back("train.finish.epochs=", 2 * ((run.steps + per_epoch - 1) / per_epoch));
  if (reached(f.steps, 1)) later.emplace_back("train.finish.steps=", 2 * run.steps);
  auto command = "`" + resume;
  for (const auto& o : overrides)
    if (std::none_of(later.begin(), later.end(), [&](const auto& l) { return o.starts_with(l.first); }))
      command += " --set " + shell_word(o);
  for (const auto& [key, value] : later) command += " --set " + key + std::to_string(value);
  if (!later.empty()) return command + "` extends it";
  std::string ended = "[train.finish] of its job.toml ended it";
  if (f.patience) ended += ", with patience = " + std::to_string(*f.patience);
  if (f.target_accuracy) ended += ", with target_accuracy = " + number_text(*f.target_accuracy);
  if (f.seconds) ended += ", with time = \"" + number_text(*f.seconds) + "s\"";
  return ended + "; " + command + " --set train.finish.KEY=VALUE` with a later end extends it";
}

}  // namespace troupe
