#include "runtime/spec/mistakes.hpp"

namespace troupe {

diagnostics shown_mistakes(diagnostics all) {
  if (all.size() <= max_mistakes_shown) return all;
  const auto more = all.size() - max_mistakes_shown;
  all.resize(max_mistakes_shown + 1);
  auto& last = all.back();
  last.at = {all.front().at.file, 0, 0};
  last.message = "... and " + std::to_string(more) + " more mistakes";
  return all;
}

}  // namespace troupe
