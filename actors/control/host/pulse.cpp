#include "actors/control/host/pulse.hpp"

namespace troupe::control {

void pulse::beat(instant now) {
  if (!s_.options.on_alive || now - last_ < std::chrono::milliseconds(100)) return;
  last_ = now;
  for (std::size_t i = 0; i < watched_actors; ++i)
    if (s_.answered[i].exchange(false)) alive_.answered(watched_actor{static_cast<std::uint8_t>(i)});
  if (alive_.ask(watched_actor::repl, now)) s_.repl.post(probe{});
  if (alive_.ask(watched_actor::exchange, now)) s_.exchange.post(probe{});
  if (alive_.ask(watched_actor::job_executor, now)) s_.keep.post(probe{});
  alive_.ran(watched_actor::job_executor, s_.executor_clock.used());
  const auto why = alive_.look(now);
  if (!why) {
    said_ = false;
    return s_.options.on_alive();
  }
  if (!std::exchange(said_, true)) s_.log(*why + ": this daemon is not reported alive to the watchdog");
}

}  // namespace troupe::control
