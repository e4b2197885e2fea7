#include "runtime/node/net/credit.hpp"

#include <cassert>
#include <new>
#include <utility>

#include "runtime/node/net/payload_deleters.hpp"

namespace troupe::net {

void credit_account::charge(std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  held_ += bytes;
}

void credit_account::give_back(std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  assert(held_ >= bytes && "a payload gives back what it was charged");
  held_ -= bytes;
  const bool below = returned_ < report_at_;
  returned_ += bytes;
  // The reporter only posts, so it may run under the lock; this makes detaching safe.
  if (below && returned_ >= report_at_ && report_) report_();
}

std::uint64_t credit_account::collect() {
  const std::lock_guard lock(mutex_);
  return std::exchange(returned_, 0);
}

std::uint64_t credit_account::held() const {
  const std::lock_guard lock(mutex_);
  return held_;
}

void credit_account::on_report(std::function<void()> f) {
  const std::lock_guard lock(mutex_);
  report_ = std::move(f);
}

credit_accounts make_accounts(std::uint64_t window) {
  credit_accounts made;
  for (std::size_t c = 0; c < frame_classes; ++c) {
    const auto share = share_of(static_cast<frame_class>(c), window);
    made[c] = std::make_shared<credit_account>(std::max<std::uint64_t>(share / 4, 1));
  }
  return made;
}

std::uint64_t held(const credit_accounts& accounts) {
  std::uint64_t sum = 0;
  for (const auto& a : accounts) sum += a->held();
  return sum;
}

void release_credit(const std::shared_ptr<const void>& payload) {
  if (auto* d = std::get_deleter<block_deleter>(payload)) d->release();
}

}  // namespace troupe::net
