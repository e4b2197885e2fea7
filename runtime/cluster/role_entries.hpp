// Converts what a node publishes about its roles to and from the form that is sent to the
// coordinator's daemon and to clients.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/cluster/messages.hpp"
#include "runtime/cluster/view/role_published.hpp"
#include "runtime/trace/activity.hpp"

namespace troupe::control {

role_entry entry_of(const role_published& p);
role_published published_in(const role_entry& r);

activity_entry entry_of(const activity& a);
// nullopt: no activity has such fields. `task_kinds`: of the sender.
std::optional<activity> activity_in(const activity_entry& e, const std::vector<std::string>& task_kinds);

}  // namespace troupe::control
