// Test helpers for the shell: small roles, and waiting with a deadline.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "actors/shell/node_host.hpp"

namespace troupe::testing_actors {

using namespace std::chrono_literals;
constexpr auto patience = 20s;  // far beyond what a healthy run takes, so that a hang is a failure

// A gate with a deadline: opens after `count` arrivals.
class gate {
 public:
  explicit gate(int count = 1) : left_(count) {}
  void arrive() {
    std::lock_guard guard(lock_);
    if (--left_ <= 0) open_.notify_all();
  }
  bool wait(std::chrono::nanoseconds limit = patience) {
    std::unique_lock guard(lock_);
    return open_.wait_for(guard, limit, [this] { return left_ <= 0; });
  }

 private:
  std::mutex lock_;
  std::condition_variable open_;
  int left_;
};

// Collects the lines that callbacks report, in order.
class journal {
 public:
  void add(std::string line) {
    std::lock_guard guard(lock_);
    lines_.push_back(std::move(line));
    grown_.notify_all();
  }
  bool wait_for(std::size_t count) {
    std::unique_lock guard(lock_);
    return grown_.wait_for(guard, patience, [&] { return lines_.size() >= count; });
  }
  std::vector<std::string> lines() const {
    std::lock_guard guard(lock_);
    return lines_;
  }

 private:
  mutable std::mutex lock_;
  std::condition_variable grown_;
  std::vector<std::string> lines_;
};

// A role that is one function. `witness`: its use count shows whether the role still exists.
class function_role final : public role {
 public:
  using handler = std::function<void(const envelope&, time_point, effects&)>;
  explicit function_role(handler f, std::shared_ptr<void> witness = nullptr) : f_(std::move(f)), witness_(std::move(witness)) {}
  void on(const envelope& e, time_point now, effects& out) override {
    ++handled_;
    f_(e, now, out);
  }
  role_status status() const override {
    role_status s;
    s.step = handled_;
    return s;
  }

 private:
  handler f_;
  std::shared_ptr<void> witness_;
  std::uint64_t handled_ = 0;
};

inline seat make_seat(std::uint32_t id, function_role::handler f, std::uint32_t slots = 1,
                      std::shared_ptr<void> witness = nullptr) {
  seat s;
  s.id = role_id{id};
  s.name = "role" + std::to_string(id);
  s.slots = slots;
  s.value = std::make_unique<function_role>(std::move(f), std::move(witness));
  return s;
}

inline envelope make_envelope(std::uint32_t job_id, std::uint32_t to, message body, std::uint64_t step = 0) {
  envelope e;
  e.h.job = job_id;
  e.h.dst = role_id{to};
  e.h.step = step;
  e.body = std::move(body);
  return e;
}

inline event_effect note(std::string text) { return {0, warning_event{std::move(text)}}; }

template <class... Seats>
std::vector<seat> seats(Seats&&... s) {
  std::vector<seat> v;
  (v.push_back(std::forward<Seats>(s)), ...);
  return v;
}

// A host that records its events as "kind text".
struct written_host {
  explicit written_host(unsigned threads = 2, host_config c = {}) : host(prepare(threads, std::move(c))) {}

  journal events;
  node_host host;

 private:
  host_config prepare(unsigned threads, host_config c) {
    c.threads = threads;
    c.callbacks.on_event = [this](std::uint32_t, const event_effect& e) {
      events.add((e.is<warning_event>() ? "note" : name_of(e).name) + (" " + message_of(e)));
    };
    return c;
  }
};

}  // namespace troupe::testing_actors
