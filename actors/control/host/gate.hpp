// What comes in at a daemon, before anything is made of it: whoever has no right to it (trust.hpp)
// is answered here, or dropped.
#pragma once

#include "actors/control/host/actors.hpp"

namespace troupe::control {

// `h`: of the coordinator's daemon. True: nothing is to be done any more.
bool turned_away(const shared& s, const cluster_controller* h, unheeded& dropped, const message_in& m);

}  // namespace troupe::control
