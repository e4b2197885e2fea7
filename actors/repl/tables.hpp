// Formats the REPL's replies: text in columns, or one JSON object. Private to actors/repl/.
#pragma once

#include <string>

#include "actors/repl/repl.hpp"
#include "actors/view/about.hpp"

namespace troupe {

std::string repl_status_text(bool json, const repl_view& v);
std::string repl_nodes_text(bool json, const repl_view& v);
std::string repl_roles_text(bool json, const repl_view& v);
std::string repl_queues_text(bool json, const repl_view& v);
std::string repl_waits_text(bool json, const repl_view& v);
std::string repl_jobs_text(bool json, const repl_view& v);
std::string repl_help_text(bool json, const std::string& command);  // of one command; empty: of all commands
std::string repl_error_text(bool json, const std::string& what);
std::string repl_layer_text(bool json, const repl_layer& l);
std::string repl_layers_text(bool json, const repl_about& a);
std::string repl_staleness_text(bool json, const event_effect& e);
std::string repl_step_text(const event_effect& e);
std::string repl_moved_text(const event_effect& e);
std::string repl_event_json(const event_effect& e);
std::string repl_sent_text(bool json, std::uint32_t job, const command& c);

}  // namespace troupe
