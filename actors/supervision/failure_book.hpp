// What a running job has lost, and whether it may go on after one more loss. A value: it is told
// the time.
//
// A loss is one interruption, however many nodes go at once. Intensity as in OTP's supervisors:
// more than 3 within 30 s is a loop, which is given up with the first cause named. A node that a
// peer cannot reach, while the coordinator's daemon can, is suspected for `grace`: most often its
// own end is heard of meanwhile; else only the connection between the two is gone, and the same
// nodes begin anew.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

namespace troupe {

class failure_book {
 public:
  using instant = std::chrono::steady_clock::time_point;
  static constexpr std::chrono::seconds grace{5}, span{30};
  static constexpr std::size_t in_span = 3;

  // `most`: losses that the job survives; none: any number.
  explicit failure_book(std::optional<std::uint64_t> most = 0) : max_(most) {}

  bool survives_any() const { return !max_ || *max_ > 0; }
  // One more loss, for this reason. What it says when the job may not go on; nothing: it may.
  std::optional<std::string> note(const std::string& why, instant now);
  std::uint64_t count() const { return count_; }

  // `by`: who cannot reach it.
  void suspect(const std::string& node, const std::string& by, const std::string& why, instant now);
  void clear_of(const std::string& node);  // it is gone: who could not reach it, and whom it could not reach
  void clear_all() { suspects_.clear(); }
  struct suspicion {
    instant until{};
    std::string node, by, why;
  };
  const suspicion* suspected(const std::string& node) const {
    const auto at = suspects_.find(node);
    return at == suspects_.end() ? nullptr : &at->second;
  }
  // Somebody who has been suspected for too long.
  std::optional<suspicion> overdue(instant now) const;

  std::set<std::string> away;     // nodes that the job goes on without, and takes again when they are back
  std::set<std::string> not_now;  // of them, those that it could not take as they came back
  std::set<std::string> apart;    // they are there, but others cannot reach them; until they join anew

 private:
  std::optional<std::uint64_t> max_;
  std::uint64_t count_ = 0;
  std::deque<std::pair<instant, std::string>> recent_;  // and why
  std::map<std::string, suspicion> suspects_;
};

}  // namespace troupe
