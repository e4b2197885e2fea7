// Formats the REPL's replies: text in columns, or one JSON object. Private to actors/repl/.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "actors/repl/repl.hpp"
#include "runtime/cluster/view/about.hpp"

namespace troupe {

std::string repl_status_text(bool json, const repl_view& v);
std::string repl_nodes_text(bool json, const repl_view& v);
std::string repl_roles_text(bool json, const repl_view& v);
std::string repl_queues_text(bool json, const repl_view& v);
std::string repl_waits_text(bool json, const repl_view& v);
std::string repl_jobs_text(bool json, const repl_view& v);
std::string repl_help_text(bool json, const std::string& command);  // of one command; empty: of all commands
std::string repl_error_text(bool json, const std::string& what);
// `said`: events, of which the last histograms of the layer's parameters are shown. `note`: a line
// below; empty: none.
std::string repl_layer_text(bool json, const repl_view& v, const repl_job& j, const repl_layer& l,
                            const std::vector<repl_event>& said, const std::string& note);
std::string repl_layers_text(bool json, const repl_about& a);
std::string repl_staleness_text(const staleness_event& e);
std::string repl_duration(double seconds);  // "5.2 ms", "12 s", "3 min 20 s", "2 h 5 min"

}  // namespace troupe
