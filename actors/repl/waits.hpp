// Which role or connection holds up the others. Pure. Private to actors/repl/ and actors/page/.
//
// Edges: a role that waits points at the roles that could end its wait (by the kind of the wait,
// the role's name and the layers of the job). Roots are roles that do not wait for another role:
// they compute, read data, have failed, or wait for a user. The roles of a node that has sent no
// report for a second are one root: what they do is unknown. The worst root comes first; it gets
// all waiting roles that lead to it, then the next root gets the remaining ones. Waiting roles that
// lead to no root wait for each other or for an idle role: a message between them is late or lost.
// Limits: the roles are published at different times (0.1 s apart, those of other nodes 0.25 s), so
// short waits may be out of date.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "runtime/cluster/view/view.hpp"

namespace troupe {

struct wait_root {
  enum class kind { failed, silent, user, task, idle, connection };
  kind what = kind::idle;
  std::size_t role = 0;                 // index in view.roles
  std::string text;                     // "reads data (load of packet 3 of step 12), for 12.3 s"
  double seconds = 0;                   // for which it has been so
  std::vector<std::size_t> chain;       // the longest wait that leads to it: the waiting role, ..., the root
  std::vector<std::size_t> held_up;     // all roles that wait for it, directly or not
  std::vector<std::string> nodes = {};  // of a connection: its two ends; the silent node
};

// The roots that hold up at least one role, the worst first.
std::vector<wait_root> wait_roots(const repl_view& v);

// "root: ROLE WHAT; N roles wait for it" and the longest chain; and the same as JSON.
std::string wait_root_text(const repl_view& v, const wait_root& r);
nlohmann::ordered_json wait_root_object(const repl_view& v, const wait_root& r);

// Indices of the roles that compute a layer of the job.
std::vector<std::size_t> roles_with_layer(const repl_view& v, const repl_about& about, const std::string& layer);

// By role: indices of the roles that could end its wait; empty for a role that does not wait.
std::vector<std::vector<std::size_t>> wait_edges(const repl_view& v);

// For tests: indices of the roles that could end the wait of a role.
std::vector<std::size_t> roles_waited_for(const repl_view& v, std::size_t role);

}  // namespace troupe
