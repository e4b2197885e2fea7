// Probes the daemon's actors (liveness.hpp) while the control actor handles messages, of which its
// ticks are some. The watchdog is thus fed by the actors themselves, and not by a clock that would
// run without them. Answers do not go through the control actor's mailbox, which may be long.
#pragma once

#include "actors/control/host/actors.hpp"
#include "actors/supervision/liveness.hpp"

namespace troupe::control {

class pulse {
 public:
  explicit pulse(shared& s) : s_(s) {}
  void beat(instant now);  // at most ten times a second; does nothing before

 private:
  shared& s_;
  liveness alive_;
  instant last_{};
  bool said_ = false;  // a hung actor has been logged
};

}  // namespace troupe::control
