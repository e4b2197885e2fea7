#include "actors/supervision/liveness.hpp"

#include <algorithm>
#include <utility>

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
  w.asked = now;
  w.still = {};
  return true;
}

void liveness::answered(watched_actor who) { all_[static_cast<std::size_t>(who)].waiting = false; }

void liveness::ran(watched_actor who, std::chrono::nanoseconds in_all) {
  auto& w = all_[static_cast<std::size_t>(who)];
  if (in_all == w.ran) return;
  w.ran = in_all;
  w.still = {};
}

std::optional<std::string> liveness::look(instant now) {
  const auto before = std::exchange(looked_, now);
  const auto passed = before == instant{} ? 0ns : std::min<std::chrono::nanoseconds>(now - before, max_a_look);
  std::optional<std::string> found;
  for (std::size_t i = 0; i < all_.size(); ++i) {
    auto& w = all_[i];
    if (!w.waiting) continue;
    w.still += passed;
    if (found || w.still <= patience_with[i].within) continue;
    found = std::string("the actor ") + patience_with[i].name + " has not answered for " +
            std::to_string(std::chrono::duration_cast<std::chrono::seconds>(now - w.asked).count()) + " s";
  }
  return found;
}

}  // namespace troupe
