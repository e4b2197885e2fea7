// Loads plugins (runtime/job/plugin_abi.hpp) into the tables. A plugin is code: it runs with the
// rights of this process, so only files that a job or cluster file of the user names are ever
// loaded. A plugin stays loaded until the process ends: the tables point into it. Errors: values.
// Codes: "plugin_missing", "plugin_unloadable", "plugin_not_one" (a shared library without the two
// functions), "plugin_abi" (built for another Troupe), "plugin_failed" (its register_plugin threw),
// "plugin_changed" (its bytes are not those that were meant). Threads: one at a time for one table.
//
// "PATH#sha256=DIGEST" means these bytes and no others: they are read once, and what has the digest
// is what is loaded, whatever becomes of the file.
#pragma once

#include <string>
#include <vector>

#include "runtime/job/tables.hpp"
#include "runtime/node/net/error.hpp"

namespace troupe {

// The two parts of such a name. No digest: empty.
struct plugin_name {
  std::string path, sha256;
};
plugin_name split_plugin(const std::string& name);

// The digest of what lies there now, for a message; empty: it cannot be read.
std::string plugin_sha256(const std::string& path);

net::expected<void> load_plugin(const std::string& path, tables& into);

// In order; stops at the first that cannot be loaded. A library that is named twice is loaded once.
net::expected<void> load_plugins(const std::vector<std::string>& paths, tables& into);

}  // namespace troupe
