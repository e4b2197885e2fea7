#include "runtime/job/divergence.hpp"

#include <vector>

#include "runtime/base/number_text.hpp"
#include "runtime/base/wording.hpp"

namespace troupe {
namespace {

// A rate that usually converges, for rules that divide by the size of the gradient; 0: it depends
// on the gradient.
double usual_rate(const std::string& rule) {
  if (rule == "adam" || rule == "adamw" || rule == "adamax" || rule == "rmsprop") return 0.001;
  if (rule == "adagrad") return 0.01;
  return rule == "adadelta" ? 1 : 0;
}

std::string short_text(double x) { return general_text(x, 3); }

std::string advice_about_rate(const train_spec& t) {
  const auto usual = usual_rate(t.rule.kind);
  auto text = "lower train.dynamics.lr (" + short_text(t.lr) + " now, try ";
  if (usual > 0 && t.lr > usual) return text + short_text(usual) + ", which is usual for " + t.rule.kind + ")";
  return text + short_text(t.lr / 10) + ")";
}

}  // namespace

std::string divergence_advice(const job_spec& s) {
  const auto& t = s.train;
  std::vector<std::string> advice;
  if (t.lr > 0) advice.push_back(advice_about_rate(t));
  if (t.warmup.steps == 0 && usual_rate(t.rule.kind) > 0)
    advice.emplace_back("let the rate grow over the first steps (train.dynamics.schedule.warmup)");
  advice.push_back(t.clip.norm > 0 ? "lower train.dynamics.clip.norm (" + short_text(t.clip.norm) + " now)"
                                   : "limit the gradient (train.dynamics.clip.norm = 1)");
  if (s.precision == "bf16") advice.push_back("train with job.precision = \"fp32\" (bf16 now)");
  advice.emplace_back(
      "scale the inputs to a mean near 0 and a deviation near 1 (`troupe data` shows them, and values that are not finite)");
  return "; training diverges: " + joined(advice);
}

}  // namespace troupe
