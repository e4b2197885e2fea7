#include "runtime/job/job_rule.hpp"

#include <algorithm>
#include <cmath>

#include "ops/rules/average.hpp"
#include "runtime/job/position.hpp"
#include "runtime/sync/mode.hpp"

namespace troupe {

std::uint64_t average_start(const prepared_job& j) {
  const auto& a = j.spec.train.average;
  if (!a.start_fraction) return static_cast<std::uint64_t>(a.start);
  return static_cast<std::uint64_t>(std::floor(*a.start_fraction * static_cast<double>(j.last_step)));
}

std::unique_ptr<rule> make_rule(const prepared_job& j) {
  const auto& t = j.spec.train;
  auto plain = j.all->rules.find(t.rule.kind)->make(t.rule.values);
  if (!keeps_average(j.spec)) return plain;
  average_numbers n;
  n.kind = t.average.kind == "swa" ? average_numbers::kind_of::swa : average_numbers::kind_of::ema;
  n.decay = t.average.decay;
  n.bias_correction = t.average.bias_correction;
  n.start = average_start(j);
  n.every = static_cast<std::uint64_t>(t.average.every);
  return averaged(std::move(plain), n);
}

expected<void, diagnostic> check_average(const prepared_job& j) {
  const auto& t = j.spec.train;
  if (!keeps_average(j.spec)) return {};
  const auto refused = [&](const char* key, std::string why) {
    return unexpected(diagnostic{position(t.key_at, key, t.average.at), std::move(why)});
  };
  if (!j.all->modes.find(t.sync.kind)->averages) {
    std::string with;
    for (const auto& name : j.all->modes.names())
      if (j.all->modes.find(name)->averages) with += (with.empty() ? "" : ", ") + name;
    return refused("average.kind",
                   "mode '" + t.sync.kind +
                       "' has no single sequence of weights that could be averaged; remove [train.average], or use a "
                       "mode that has one (" +
                       with + ")");
  }
  const auto inner = j.all->rules.find(t.rule.kind)->make(t.rule.values)->states();
  if (std::find(inner.begin(), inner.end(), average_state) != inner.end())
    return refused("average.kind", "the update rule '" + t.rule.kind + "' has a state of its own called '" + average_state +
                                       "', the name of the average: use another rule");
  if (t.average.start_fraction && j.last_step == 0)
    return refused("average.start_fraction",
                   "start_fraction is a fraction of the job's steps, but [train.finish] has no number of steps or epochs: set "
                   "start = STEPS, or finish.steps");
  if (t.average.evaluate != "weights" && j.plan.tester == no_role)
    for (const auto& l : j.graph.layers)
      if (j.all->stages.find(l.type))
        return refused("average.evaluate", "layer '" + l.name +
                                               "' exchanges messages with the same layer of all workers, so no tester can evaluate "
                                               "the average: set evaluate = \"weights\"");
  return {};
}

}  // namespace troupe
