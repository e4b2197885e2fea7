// Probes the daemon's actors (liveness.hpp) on the control actor's ticks. The watchdog is thus fed
// by the actors themselves, and not by a clock that would run without them.
#pragma once

#include "actors/control/host/actors.hpp"
#include "actors/supervision/liveness.hpp"

namespace troupe::control {

class pulse {
 public:
  explicit pulse(shared& s) : s_(s) {}
  void tick(instant now);
  void back(watched_actor who, instant now) { alive_.answered(who, now); }

 private:
  shared& s_;
  liveness alive_;
  bool said_ = false;  // a hung actor has been logged
};

}  // namespace troupe::control
