#include "actors/shell/monitor.hpp"

#include <algorithm>
#include <utility>

#include "runtime/messages/ids.hpp"

namespace troupe {

void monitor_entry::put(role_status s, std::uint64_t messages, duration busy, clock::time_point now) {
  dirty_.store(false, std::memory_order_relaxed);
  std::lock_guard guard(lock_);
  last_.waited[static_cast<std::size_t>(last_.status.waits)] += seconds_of(now - at_);
  last_.status = std::move(s);
  last_.messages = messages;
  last_.busy_seconds = seconds_of(busy);
  at_ = now;
}

role_published monitor_entry::get(clock::time_point now) const {
  std::lock_guard guard(lock_);
  role_published p = last_;
  p.age_seconds = seconds_of(now - at_);
  p.waited[static_cast<std::size_t>(p.status.waits)] += p.age_seconds;
  p.tasks = tasks_begun_;
  const task* first = nullptr;
  for (const auto& t : tasks_)
    if (t.kind && (!first || t.serial < first->serial)) first = &t;
  if (!first) return p;
  p.task = {first->kind, first->serial, first->packet.has_value(), 0, 0, seconds_of(now - first->since), 0};
  if (first->packet) {
    p.task.step = first->packet->step;
    p.task.packet = first->packet->packet;
  }
  for (const auto& k : times_)
    if (k.kind == first->kind) p.task.usual = k.median();
  return p;
}

void monitor_entry::task_begun(std::uint32_t slot, const char* kind, const std::optional<header>& packet, clock::time_point now) {
  std::lock_guard guard(lock_);
  if (slot >= tasks_.size()) tasks_.resize(slot + 1);
  tasks_[slot] = {kind, ++tasks_begun_, packet, now};
}

void monitor_entry::task_over(std::uint32_t slot, clock::time_point now) {
  std::lock_guard guard(lock_);
  if (slot >= tasks_.size()) return;
  const auto& t = tasks_[slot];
  const auto* const kind = std::exchange(tasks_[slot].kind, nullptr);
  if (!kind) return;
  auto of = std::find_if(times_.begin(), times_.end(), [&](const times_of_kind& k) { return k.kind == kind; });
  if (of == times_.end()) of = times_.insert(of, {kind});
  of->last[of->count++ % of->last.size()] = now - t.since;
}

double monitor_entry::times_of_kind::median() const {
  constexpr std::uint64_t fewest = 5;
  if (count < fewest) return 0;
  auto known = last;
  const auto end = known.begin() + static_cast<std::ptrdiff_t>(std::min<std::uint64_t>(count, known.size()));
  const auto middle = known.begin() + (end - known.begin()) / 2;
  std::nth_element(known.begin(), middle, end);
  return seconds_of(*middle);
}

bool monitor_entry::wants_waking() {
  return dirty_.load(std::memory_order_relaxed) && !woken_.exchange(true, std::memory_order_relaxed);
}

monitor_thread::monitor_thread(std::function<void()> sweep) : sweep_(std::move(sweep)) {
  thread_ = std::thread([this] {
    std::unique_lock guard(lock_);
    while (!wake_.wait_for(guard, publish_every, [this] { return stop_; })) {
      guard.unlock();
      sweep_();
      guard.lock();
    }
  });
}

monitor_thread::~monitor_thread() {
  {
    std::lock_guard guard(lock_);
    stop_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

}  // namespace troupe
