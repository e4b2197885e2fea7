#include "actors/control/host/pulse.hpp"

namespace troupe::control {

void pulse::tick(instant now) {
  if (!s_.options.on_alive) return;
  if (alive_.ask(watched_actor::repl, now)) s_.repl.post(probe{});
  if (alive_.ask(watched_actor::exchange, now)) s_.exchange.post(probe{});
  if (alive_.ask(watched_actor::job_executor, now)) s_.keep.post(probe{});
  alive_.ran(watched_actor::job_executor, s_.executor_clock.used(), now);
  const auto why = alive_.hung(now);
  if (!why) {
    said_ = false;
    return s_.options.on_alive();
  }
  if (!std::exchange(said_, true)) s_.log(*why + ": this daemon is not reported alive to the watchdog");
}

}  // namespace troupe::control
