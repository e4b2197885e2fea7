// The node failures of a running job, and the decision whether the job continues after one more. A
// value; the caller supplies the time.
//
// Nodes that fail at the same time count as one failure. The limit is a rate, as in OTP's
// supervisors: more than 3 failures within 30 s end the job, and the error names the first cause.
// A node that a peer cannot reach while the coordinator's daemon can is suspected for `grace`.
// Usually its own failure is reported within that time. Otherwise only the connection between the
// two is down, and the job restarts on the same nodes.
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

  // `most`: node failures that the job survives; nullopt: no limit.
  explicit failure_book(std::optional<std::uint64_t> most = 0) : max_(most) {}

  bool survives_any() const { return !max_ || *max_ > 0; }
  // Records one more failure, with its cause. Returns the error that ends the job, or nullopt if
  // the job continues.
  std::optional<std::string> note(const std::string& why, instant now);
  std::uint64_t count() const { return count_; }

  // `by`: the peer that cannot reach `node`.
  void suspect(const std::string& node, const std::string& by, const std::string& why, instant now);
  void clear_of(const std::string& node);  // after it failed: drops the suspicions of it and by it
  void clear_all() { suspects_.clear(); }
  struct suspicion {
    instant until{};
    std::string node, by, why;
  };
  const suspicion* suspected(const std::string& node) const {
    const auto at = suspects_.find(node);
    return at == suspects_.end() ? nullptr : &at->second;
  }
  // A node that has been suspected for longer than `grace`. Nullopt if there is none.
  std::optional<suspicion> overdue(instant now) const;

  std::set<std::string> away;     // nodes that the job continues without, and uses again when they are back
  std::set<std::string> not_now;  // of these, nodes that were back and that the job could not use yet
  std::set<std::string> apart;    // nodes that are up but that other nodes cannot reach; until they join again

 private:
  std::optional<std::uint64_t> max_;
  std::uint64_t count_ = 0;
  std::deque<std::pair<instant, std::string>> recent_;  // time and cause of the failures within `span`
  std::map<std::string, suspicion> suspects_;
};

}  // namespace troupe
