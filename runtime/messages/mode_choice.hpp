// A mode and its options, as commands and events carry them. Threads: values.
#pragma once

#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace troupe {

using named_texts = std::vector<std::pair<std::string, std::string>>;

struct mode_choice {
  std::string name;
  named_texts options = {};

  std::string text() const;                        // "ssp staleness=3"
  static mode_choice of(const std::string& text);  // the reverse; words that are not KEY=VALUE are ignored
  static auto fields(auto& m) { return std::tie(m.name, m.options); }
  friend bool operator==(const mode_choice&, const mode_choice&) = default;
};

}  // namespace troupe
