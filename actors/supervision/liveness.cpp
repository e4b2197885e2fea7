#include "actors/supervision/liveness.hpp"

#include <algorithm>

namespace troupe {
namespace {

using namespace std::chrono_literals;

struct patience {
  const char* name;
  std::chrono::seconds within;
};
constexpr std::array<patience, watched_actors> patience_with = {{{"repl", 20s}, {"exchange", 60s}, {"executor", 600s}}};

}  // namespace

bool liveness::ask(watched_actor who, instant now) {
  auto& w = all_[static_cast<std::size_t>(who)];
  if (w.waiting || now - w.asked < 1s) return false;
  w.waiting = true;
  w.asked = w.moved = now;
  return true;
}

void liveness::answered(watched_actor who, instant now) {
  auto& w = all_[static_cast<std::size_t>(who)];
  w.waiting = false;
  w.moved = now;
}

void liveness::ran(watched_actor who, std::chrono::nanoseconds in_all, instant now) {
  auto& w = all_[static_cast<std::size_t>(who)];
  if (in_all == w.ran) return;
  w.ran = in_all;
  w.moved = now;
}

std::optional<std::string> liveness::hung(instant now) const {
  for (std::size_t i = 0; i < all_.size(); ++i) {
    const auto& w = all_[i];
    const auto since = now - std::max(w.asked, w.moved);
    if (!w.waiting || since <= patience_with[i].within) continue;
    return std::string("the actor ") + patience_with[i].name + " has not answered for " +
           std::to_string(std::chrono::duration_cast<std::chrono::seconds>(now - w.asked).count()) + " s";
  }
  return std::nullopt;
}

}  // namespace troupe
