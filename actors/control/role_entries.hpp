// Converts published role state to and from the form that is sent to the coordinator's daemon.
#pragma once

#include "actors/control/messages.hpp"
#include "actors/shell/node_host.hpp"

namespace troupe::control {

role_entry entry_of(const role_published& p);
role_published published_in(const role_entry& r);

}  // namespace troupe::control
