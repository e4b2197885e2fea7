#include "runtime/messages/drops.hpp"

namespace troupe {

const char* name_of(drop_reason r) {
  constexpr const char* names[drop_reasons] = {"repeated",     "outdated",  "unrequested", "quiesced",
                                               "misaddressed", "malformed", "unexpected"};
  return names[static_cast<std::size_t>(r)];
}

std::string mistakes_text(const drop_counts& d) {
  std::string text;
  for (std::size_t i = 0; i < drop_reasons; ++i)
    if (const auto r = static_cast<drop_reason>(i); is_mistake(r) && d[r] > 0)
      text += (text.empty() ? "" : ", ") + std::to_string(d[r]) + " " + name_of(r);
  return text;
}

}  // namespace troupe
