#include "runtime/node/net/held_line.hpp"

#include <algorithm>
#include <utility>

namespace troupe::net {

using boost::system::error_code;

bool held_line::hold(step s, const std::shared_ptr<void>& owner, again then) {
  held_[s] = std::move(then);
  if (!std::exchange(waits_, true)) wait_for_end(owner);
  return true;
}

// Only the timer's handler holds the owner. If the steps in held_ held it, the cycle would leak
// once the I/O loop no longer runs.
void held_line::wait_for_end(const std::shared_ptr<void>& owner) {
  lifted_.expires_after(faults_->drops());
  lifted_.async_wait([this, owner](const error_code& ec) {
    if (ec) return;
    if (faults_->drops() != line_faults::clock::duration::zero()) return wait_for_end(owner);  // the fault has been prolonged
    waits_ = false;
    for (auto& then : std::exchange(held_, {}))
      if (then) then();
  });
}

bool held_line::take(frame& f, const std::shared_ptr<void>& owner, const again& then) {
  const auto now = line_faults::clock::now();
  const auto due = now + faults_->delays();
  const bool first = late_.empty();
  late_.push_back({first ? due : std::max(due, late_.back().due), std::move(f)});
  if (first) wait_for_due(owner, then);
  return true;
}

void held_line::wait_for_due(const std::shared_ptr<void>& owner, const again& then) {
  due_.expires_at(late_.front().due);
  due_.async_wait([this, owner, then](const error_code& ec) {
    if (ec || late_.empty()) return;
    then();
    if (!late_.empty()) wait_for_due(owner, then);
  });
}

std::optional<frame> held_line::next_due() {
  if (late_.empty() || late_.front().due > line_faults::clock::now()) return std::nullopt;
  auto f = std::move(late_.front().what);
  late_.pop_front();
  return f;
}

void held_line::forget() {
  late_.clear();
  due_.cancel();
}

}  // namespace troupe::net
