#include "ops/layer_support.hpp"

namespace troupe {

std::string to_string(const shapes& s) {
  std::string text;
  for (const auto& one : s) {
    if (!text.empty()) text += ", ";
    text += one.to_string();
  }
  return text.empty() ? "nothing" : text;
}

void want(bool ok, const std::string& what, const shapes& got) {
  if (!ok) throw shape_error("expects " + what + ", got " + to_string(got));
}

bool scores_of_labels(const shape& scores, const shape& labels) {
  if (labels.rank() < 1 || scores.rank() <= labels.rank()) return false;
  for (int i = 0; i < labels.rank(); ++i)
    if (scores[i] != labels[i]) return false;
  return true;
}

signatures alike(std::initializer_list<distribution> kinds, std::size_t inputs, std::size_t params, std::size_t outputs) {
  signatures all;
  for (auto d : kinds) {
    all.push_back({std::vector<distribution>(inputs, d), std::vector<distribution>(params, distribution::broadcast),
                   std::vector<distribution>(outputs, d)});
  }
  return all;
}

}  // namespace troupe
