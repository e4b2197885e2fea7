#include "actors/control/pulse.hpp"

namespace troupe::control {

void pulse::tick(instant now) {
  if (!s_.options.on_alive) return;
  if (alive_.ask(watched_actor::repl, now)) s_.repl.post(probe{});
  if (alive_.ask(watched_actor::exchange, now)) s_.exchange.post(probe{});
  if (alive_.ask(watched_actor::keeper, now)) s_.keep.post(keeper_note{probe{}});
  alive_.ran(watched_actor::keeper, s_.keeper_clock.used(), now);
  const auto why = alive_.hung(now);
  if (!why) {
    said_ = false;
    return s_.options.on_alive();
  }
  if (!std::exchange(said_, true)) s_.log(*why + ": the watchdog is not told that this daemon is alive");
}

}  // namespace troupe::control
