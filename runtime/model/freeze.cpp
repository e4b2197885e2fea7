#include "runtime/model/freeze.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "runtime/base/wording.hpp"

namespace troupe {

bool matches_pattern(std::string_view text, std::string_view pattern) {
  constexpr auto none = std::string_view::npos;
  std::size_t t = 0, p = 0, star = none, from = 0;  // after the last '*', the text from `from` on is matched
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      from = t;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t])) {
      ++p, ++t;
    } else if (star != none) {
      p = star + 1;
      t = ++from;
    } else {
      return false;
    }
  }
  return std::all_of(pattern.begin() + static_cast<std::ptrdiff_t>(p), pattern.end(), [](char c) { return c == '*'; });
}

void freeze_parameters(model_graph& g, const job_spec& job, diagnostics& errors) {
  const auto& patterns = job.train.freeze;
  for (std::size_t i = 0; i < patterns.size(); ++i) {
    bool some = false;
    for (auto& p : g.params) {
      if (!matches_pattern(p.full_name, patterns[i]) && !matches_pattern(g.layers[p.layer].name, patterns[i])) continue;
      some = p.frozen = true;
      p.spec.lr_multiplier = p.spec.decay_multiplier = 0;
    }
    if (some) continue;
    std::vector<std::string> known;
    for (const auto& l : g.layers)
      if (!l.params.empty()) known.push_back(l.name);
    for (const auto& p : g.params) known.push_back(p.full_name);
    const auto hint = did_you_mean(patterns[i], known);
    errors.push_back(
        {position_of(job.train.key_at, "freeze." + std::to_string(i), position_of(job.train.key_at, "freeze", job.train.at)),
         "freeze: " + in_quotes(patterns[i]) + " matches no layer with parameters and no parameter" +
             (hint.empty() && !known.empty() ? ", as " + in_quotes(known.front()) + " or " + in_quotes(known.back()) : hint)});
  }
  const auto trains = [](const graph_param& p) { return p.spec.trainable && !p.frozen; };
  if (!patterns.empty() && errors.empty() && std::none_of(g.params.begin(), g.params.end(), trains))
    errors.push_back(
        {position_of(job.train.key_at, "freeze", job.train.at), "freeze matches all parameters: nothing is left to train"});
}

}  // namespace troupe
