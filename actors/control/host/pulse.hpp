// Asks the daemon's actors whether they are alive (liveness.hpp), from the control actor's ticks:
// so the watchdog is fed by the actors themselves, and by no clock beside them.
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
  bool said_ = false;  // that somebody is hung
};

}  // namespace troupe::control
