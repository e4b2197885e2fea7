// Checks the permission of a received message before it is handled (trust.hpp). A message without
// permission is answered with a refusal or dropped.
#pragma once

#include "actors/control/host/actors.hpp"

namespace troupe::control {

// `h`: the cluster controller, on the coordinator's daemon; else null. Returns true if the message
// was turned away.
bool turned_away(const shared& s, const cluster_controller* h, unheeded& dropped, const message_in& m);

}  // namespace troupe::control
