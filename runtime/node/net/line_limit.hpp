// Limits the log lines that one unknown peer can cause: the first lines of each minute are written,
// the rest are counted, and the next line about the peer states that count. A value type; the
// caller passes the time. Memory is bounded, because an attacker can use any number of addresses.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace troupe::net {

class line_limit {
 public:
  using instant = std::chrono::steady_clock::time_point;
  static constexpr std::uint32_t lines_a_minute = 5;
  static constexpr std::size_t max_strangers = 1024;  // all further ones are counted together

  // Returns `line` and the number of lines left out before it. Empty if the peer has reached the
  // limit of this minute.
  std::optional<std::string> write(const std::string& who, std::string line, instant now) {
    auto& s = strangers_[strangers_.size() < max_strangers || strangers_.contains(who) ? who : std::string()];
    if (now - s.since >= std::chrono::minutes(1)) {
      s.since = now;
      s.written = 0;
    }
    if (s.written == lines_a_minute) {
      ++s.left_out;
      return std::nullopt;
    }
    ++s.written;
    if (s.left_out > 0) line += " (" + std::to_string(std::exchange(s.left_out, 0)) + " more such lines were left out before it)";
    return line;
  }

  // Returns one line for each peer of which lines were left out and whose minute is over. Removes
  // all peers whose minute is over.
  std::vector<std::string> due(instant now) {
    std::vector<std::string> lines;
    for (auto at = strangers_.begin(); at != strangers_.end();) {
      const auto& [name, s] = *at;
      if (now - s.since < std::chrono::minutes(1)) {
        ++at;
        continue;
      }
      if (s.left_out > 0)
        lines.push_back((name.empty() ? "others" : name) + ": " + std::to_string(s.left_out) + " more such lines in a minute");
      at = strangers_.erase(at);
    }
    return lines;
  }
  bool empty() const { return strangers_.empty(); }
  std::size_t strangers() const { return strangers_.size(); }

 private:
  struct stranger {
    instant since{};
    std::uint32_t written = 0;
    std::uint64_t left_out = 0;
  };
  std::map<std::string, stranger> strangers_;
};

}  // namespace troupe::net
