// Loads plugins (runtime/job/plugin_abi.hpp) into the tables. A plugin is code: it runs with the rights of this process, so only
// files that a job or cluster file of the user names are ever loaded. A plugin stays loaded until the process ends: the tables
// point into it. Errors: values. Codes: "plugin_missing", "plugin_unloadable", "plugin_not_one" (a shared library without the two
// functions), "plugin_abi" (built for another Troupe), "plugin_failed" (its register_plugin threw). Threads: one at a time for one
// table.
#pragma once

#include <string>
#include <vector>

#include "runtime/job/tables.hpp"
#include "runtime/node/net/error.hpp"

namespace troupe {

net::expected<void> load_plugin(const std::string& path, tables& into);

// In order; stops at the first that cannot be loaded. A library that is named twice is loaded once.
net::expected<void> load_plugins(const std::vector<std::string>& paths, tables& into);

}  // namespace troupe
