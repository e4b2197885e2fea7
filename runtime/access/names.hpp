// Names of nodes and of clients, as certificates and connections have them.
#pragma once

#include <string>
#include <string_view>

namespace troupe {

inline constexpr std::string_view client_name = "client";

// Returns true for 1 to 63 characters of [A-Za-z0-9._-] that do not start with '.' or '-'. Such a
// name fits a certificate's common name, a file name and a log line.
bool valid_node_name(std::string_view name);

// A client certificate has the common name "client" or "client.NAME". The name of a session has one
// more word, "client.<word>" or "client.NAME.<word>", so that one certificate can have several
// sessions at a time. Returns true for all of these names.
bool is_operator(std::string_view name);
bool valid_operator_name(std::string_view name);    // NAME, or "client": 1 to 32 of [A-Za-z0-9_-]
std::string operator_of(std::string_view session);  // NAME, or "client"; the name of a node is returned unchanged
// Returns true if a peer whose certificate has that common name may use `name`: a session of that
// operator, or the node itself.
bool may_be_called(std::string_view name, std::string_view common_name);

// Returns true if `a` decides whether a connection between `a` and `b` is accepted: the smaller
// name decides between nodes, and the node between a node and an operator.
bool wins_tie_break(std::string_view a, std::string_view b);

}  // namespace troupe
