#include "runtime/graph/mistakes.hpp"

namespace troupe {

diagnostics told_mistakes(diagnostics all) {
  if (all.size() <= most_mistakes_told) return all;
  const auto more = all.size() - most_mistakes_told;
  all.resize(most_mistakes_told + 1);
  auto& last = all.back();
  last.at = {all.front().at.file, 0, 0};
  last.message = "... and " + std::to_string(more) + " more mistakes";
  return all;
}

}  // namespace troupe
