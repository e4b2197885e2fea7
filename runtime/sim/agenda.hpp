// Where the processes of a simulation enter calls that are due at a virtual time. sim::world is an
// agenda. Calls run between two events, in order of time; those of one time run in the order in
// which they were entered. Not thread-safe.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <utility>

#include "runtime/messages/ids.hpp"

namespace troupe::sim {

class agenda {
 public:
  using work = std::function<void()>;

  virtual ~agenda() = default;
  virtual time_point now() const = 0;
  // A time before now() counts as now().
  virtual void at(time_point when, work what) = 0;
  void in(duration after, work what) { at(now() + after, std::move(what)); }
};

// The calls of one process. While the process is stopped (SIGSTOP) its calls are deferred; they run
// in order after go_on(). Calls of a destroyed process are dropped.
class process_agenda final : public agenda {
 public:
  explicit process_agenda(agenda& all) : all_(all) {}
  process_agenda(const process_agenda&) = delete;
  process_agenda& operator=(const process_agenda&) = delete;

  time_point now() const override { return all_.now(); }
  void at(time_point when, work what) override {
    all_.at(when, [here = std::weak_ptr<process_agenda*>(here_), what = std::move(what)]() mutable {
      if (const auto p = here.lock()) (*p)->now_or_later(std::move(what));
    });
  }
  // Runs `what` now; after go_on(), and after the calls that were deferred before, if the process
  // is stopped or has just continued.
  void now_or_later(work what) {
    if (stopped_ || !late_.empty())
      late_.push_back(std::move(what));
    else
      what();
  }
  void stop() { stopped_ = true; }
  void go_on() {
    if (std::exchange(stopped_, false)) go_on_later();
  }
  bool stopped() const { return stopped_; }

 private:
  // Each deferred call is a call of the agenda of its own; it may stop or destroy the process.
  void catch_up() {
    if (stopped_ || late_.empty()) return;
    const auto here = std::weak_ptr<process_agenda*>(here_);
    const auto what = std::move(late_.front());
    late_.pop_front();
    what();
    if (!here.expired()) go_on_later();
  }
  void go_on_later() {
    if (stopped_ || late_.empty()) return;
    all_.at(now(), [here = std::weak_ptr<process_agenda*>(here_)] {
      if (const auto p = here.lock()) (*p)->catch_up();
    });
  }

  agenda& all_;
  bool stopped_ = false;
  std::deque<work> late_;
  const std::shared_ptr<process_agenda*> here_ = std::make_shared<process_agenda*>(this);
};

}  // namespace troupe::sim
