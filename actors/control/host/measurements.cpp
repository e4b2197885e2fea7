#include "actors/control/host/measurements.hpp"

namespace troupe::control {
namespace {

using namespace std::chrono_literals;
constexpr std::size_t most_awaited = 32;
constexpr auto forgotten_after = 60s;  // a client asks again every 50 ms

}  // namespace

expected<std::optional<std::string>> measurements::result(const std::string& ticket, std::function<std::string()> work) {
  std::lock_guard guard(lock_);
  if (closed_) return unexpected(error("this daemon ends"));
  drop_forgotten();
  auto at = awaited_.find(ticket);
  if (at == awaited_.end()) {
    if (awaited_.size() >= most_awaited)
      return unexpected(error("this node measures for other clients; run `troupe doctor` again in a minute"));
    const auto run = [this, does = std::move(work)] {
      std::lock_guard alone(one_at_a_time_);
      return does();
    };
    at = awaited_.emplace(ticket, entry{std::async(std::launch::async, run), {}}).first;
  }
  at->second.asked = std::chrono::steady_clock::now();
  if (at->second.result.wait_for(0s) != std::future_status::ready) return std::optional<std::string>();
  auto ready = std::move(at->second.result);
  awaited_.erase(at);
  try {
    return std::optional(ready.get());
  } catch (const std::exception& e) {
    return unexpected(error(std::string("the measurement has failed: ") + e.what()));
  }
}

void measurements::close() {
  std::map<std::string, entry> begun;  // its destructor waits
  std::lock_guard guard(lock_);
  closed_ = true;
  begun.swap(awaited_);
}

void measurements::drop_forgotten() {
  const auto now = std::chrono::steady_clock::now();
  std::erase_if(awaited_, [&](const auto& a) {
    return now - a.second.asked > forgotten_after && a.second.result.wait_for(0s) == std::future_status::ready;
  });
}

}  // namespace troupe::control
