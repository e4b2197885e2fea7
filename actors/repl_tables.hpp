// What the REPL's replies look like: text in columns for people, or one JSON object. Only for repl_*.cpp.
#pragma once

#include <string>

#include "actors/repl.hpp"

namespace troupe {

std::string repl_status_text(bool json, const repl_view& v);
std::string repl_nodes_text(bool json, const repl_view& v);
std::string repl_roles_text(bool json, const repl_view& v);
std::string repl_queues_text(bool json, const repl_view& v);
std::string repl_waits_text(bool json, const repl_view& v);
std::string repl_jobs_text(bool json, const repl_view& v);
std::string repl_help_text(bool json, const std::string& command);  // empty: all
std::string repl_error_text(bool json, const std::string& what);
std::string repl_told_text(bool json, std::uint32_t job, const command& c);

// A job file's text, at most 1 MiB. False and `error` otherwise.
bool read_submission(const std::string& file, std::string& text, std::string& error);

}  // namespace troupe
