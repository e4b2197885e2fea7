#include "runtime/exchange/client/requests.hpp"

#include <exception>
#include <utility>

#include "runtime/exchange/troupe_exchange.h"

namespace troupe::exchange {
namespace {

outcome no_such(std::int64_t number) {
  return {TROUPE_EXCHANGE_BAD_ARGUMENT,
          "request " + std::to_string(number) + " does not exist: it was never started, or wait has returned its result"};
}
outcome closing() { return {TROUPE_EXCHANGE_CLOSED, "another thread is closing this session"}; }

}  // namespace

requests::~requests() {
  stop();
  if (thread_.joinable()) thread_.join();
  std::unique_lock guard(lock_);
  changed_.wait(guard, [this] { return inside_ == 0; });
}

std::optional<std::int64_t> requests::start(work w) {
  const std::lock_guard guard(lock_);
  if (stopped_ || all_.size() >= most) return std::nullopt;
  if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  const auto number = ++numbers_;
  all_[number].what = std::move(w);
  waiting_.push_back(number);
  changed_.notify_all();
  return number;
}

std::optional<outcome> requests::wait(std::int64_t number, session::deadline until) {
  std::unique_lock guard(lock_);
  ++inside_;
  const auto over = [&] {
    const auto at = all_.find(number);
    return at == all_.end() || at->second.how;
  };
  changed_.wait_until(guard, until,
                      over);  // also after stop(): a running call uses the caller's values until it returns
  --inside_;
  changed_.notify_all();
  const auto at = all_.find(number);
  if (at == all_.end()) return no_such(number);
  if (!at->second.how) return std::nullopt;
  auto how = std::move(*at->second.how);
  all_.erase(at);
  return how;
}

std::optional<bool> requests::done(std::int64_t number) {
  const std::lock_guard guard(lock_);
  const auto at = all_.find(number);
  if (at == all_.end()) return std::nullopt;
  return at->second.how.has_value();
}

void requests::stop() {
  const std::lock_guard guard(lock_);
  stopped_ = true;
  for (const auto number : waiting_) all_[number].how = closing();
  waiting_.clear();
  changed_.notify_all();
}

void requests::run() {
  std::unique_lock guard(lock_);
  while (true) {
    changed_.wait(guard, [this] { return stopped_ || !waiting_.empty(); });
    if (waiting_.empty()) return;
    const auto number = waiting_.front();
    waiting_.pop_front();
    const auto what = std::move(all_[number].what);
    guard.unlock();
    outcome how;
    try {
      how = what();
    } catch (const std::exception& e) {
      how = {TROUPE_EXCHANGE_INTERNAL, e.what()};
    }
    guard.lock();
    all_[number].how = std::move(how);
    changed_.notify_all();
  }
}

}  // namespace troupe::exchange
