#include "runtime/messages/drops.hpp"

namespace troupe {

const char* name_of(drop_reason r) {
  constexpr const char* names[drop_reasons] = {"repeated",     "outdated",  "unrequested", "quiesced",
                                               "misaddressed", "malformed", "unexpected"};
  return names[static_cast<std::size_t>(r)];
}

}  // namespace troupe
