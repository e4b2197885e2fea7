#include "runtime/node/net/receive_window.hpp"

#include <string>
#include <utility>

namespace troupe::net {

receive_window::receive_window(std::uint64_t window, std::shared_ptr<buffer_pool> pool)
    : window_(window), pool_(std::move(pool)), accounts_(make_accounts(window)) {}

expected<std::shared_ptr<std::byte>, coded_error> receive_window::admit(const frame_header& h) {
  const auto bytes = static_cast<std::size_t>(h.length);
  const auto c = h.shares ? frame_class::large : class_of(bytes);
  const auto i = static_cast<std::size_t>(c);
  if (granted_out_[i] >= share_of(c, window_))
    return unexpected(coded_error{"credit_exceeded", "[net] the peer sends more than its window"});
  auto block = pool_->take(bytes, accounts_[i]);
  if (!block)
    return unexpected(coded_error{"out_of_memory", "[net] no memory for a payload of " + std::to_string(bytes) + " bytes"});
  granted_out_[i] += frame_cost(bytes);
  return block;
}

std::shared_ptr<credit_account> receive_window::admit_shared(std::uint64_t bytes) {
  constexpr auto i = static_cast<std::size_t>(frame_class::large);
  granted_out_[i] += bytes;
  return accounts_[i];
}

std::uint64_t receive_window::collect(frame_class c) {
  const auto i = static_cast<std::size_t>(c);
  const auto n = accounts_[i]->collect();
  granted_out_[i] -= n;
  return n;
}

void receive_window::on_report(const std::function<void()>& f) {
  for (const auto& a : accounts_) a->on_report(f);
}

}  // namespace troupe::net
