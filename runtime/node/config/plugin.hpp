// Loads plugins (runtime/job/plugin_abi.hpp) into the tables. A plugin is code that runs with the
// rights of this process, so only files named by a user's job or cluster file are loaded. A plugin
// stays loaded until the process ends, because the tables refer to it. Errors: values. Codes:
// "plugin_missing", "plugin_unloadable", "plugin_not_one" (a shared library without the two
// functions), "plugin_abi" (built for another Troupe), "plugin_failed" (its register_plugin threw),
// "plugin_changed" (its digest differs from the one given). Threads: one at a time for one table.
//
// "PATH#sha256=DIGEST" stands for a file with this digest only: the file is read once, and the
// bytes that were checked are the bytes that are loaded, even if the file changes.
#pragma once

#include <string>
#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/job/tables.hpp"

namespace troupe {

// The two parts of a plugin's name. `sha256` is empty if the name has no digest.
struct plugin_name {
  std::string path, sha256;
};
plugin_name split_plugin(const std::string& name);

// The digest of the file's current content, for a message; empty if it cannot be read.
std::string plugin_sha256(const std::string& path);

expected<void, coded_error> load_plugin(const std::string& path, tables& into);

// Loads in order; stops at the first failure. A library that is named twice is loaded once.
expected<void, coded_error> load_plugins(const std::vector<std::string>& paths, tables& into);

}  // namespace troupe
