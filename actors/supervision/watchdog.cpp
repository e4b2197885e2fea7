#include "actors/supervision/watchdog.hpp"

#include <algorithm>
#include <utility>

namespace troupe {

bool watchdog::look(instant now) {
  const auto before = std::exchange(last_, now);
  const auto meals = meals_.load();
  if (before == instant{} || std::exchange(seen_, meals) != meals)
    hungry_ = {};
  else
    hungry_ += std::min<std::chrono::duration<double>>(now - before, max_a_look);
  return hungry_ > patience;
}

}  // namespace troupe
