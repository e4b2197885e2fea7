// Event queue of a simulation of daemons, ordered by (time, order of entry). now() is the time of
// the current event.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <queue>
#include <utility>
#include <vector>

#include "runtime/messages/ids.hpp"

namespace troupe::recovery {

class agenda {
 public:
  using work = std::function<void()>;

  time_point now() const { return now_; }
  std::uint64_t done() const { return done_; }
  void at(time_point when, work w) { queue_.push({std::max(when, now_), entered_++, std::move(w)}); }
  void in(duration d, work w) { at(now_ + d, std::move(w)); }
  // Runs the next event. Returns false if there is none.
  bool step() {
    if (queue_.empty()) return false;
    auto next = std::move(const_cast<entry&>(queue_.top()));
    queue_.pop();
    now_ = next.when;
    ++done_;
    next.what();
    return true;
  }

 private:
  struct entry {
    time_point when{};
    std::uint64_t order = 0;
    work what;
    friend bool operator<(const entry& a, const entry& b) { return a.when != b.when ? a.when > b.when : a.order > b.order; }
  };
  std::priority_queue<entry> queue_;
  time_point now_{};
  std::uint64_t entered_ = 0, done_ = 0;
};

// Events of one process. While the process is stopped (SIGSTOP), its events are deferred; they run
// in order after go_on().
class process_agenda {
 public:
  explicit process_agenda(agenda& all) : all_(all) {}
  process_agenda(const process_agenda&) = delete;
  process_agenda& operator=(const process_agenda&) = delete;

  time_point now() const { return all_.now(); }
  void at(time_point when, agenda::work w) {
    all_.at(when, [here = std::weak_ptr<process_agenda*>(here_), w = std::move(w)]() mutable {
      if (const auto p = here.lock()) (*p)->now_or_later(std::move(w));
    });
  }
  void in(duration d, agenda::work w) { at(now() + d, std::move(w)); }
  // Runs `w` now, or after go_on() if the process is stopped.
  void now_or_later(agenda::work w) {
    if (stopped_)
      late_.push_back(std::move(w));
    else
      w();
  }
  void stop() { stopped_ = true; }
  void go_on() {
    stopped_ = false;
    for (auto& w : std::exchange(late_, {})) at(now(), std::move(w));
  }
  bool stopped() const { return stopped_; }

 private:
  agenda& all_;
  bool stopped_ = false;
  std::vector<agenda::work> late_;
  const std::shared_ptr<process_agenda*> here_ =
      std::make_shared<process_agenda*>(this);  // events of a destroyed process are dropped
};

}  // namespace troupe::recovery
