// The state that a page shows, as JSON: an object of objects by name, so that a merge patch
// (delta.hpp) has only what changed. It has no null and no number that is not finite: what is
// unknown is left out. Ages of a second and more are whole seconds, shorter ones are left out.
// docs/page.md lists the members. Pure.
//
//   about   who serves, what the page may do, and when certificates expire (feed.hpp). may.inject:
//           false where no fault can be injected, without a cluster or `inject` in its file
//   up      seconds since the process started
//   nodes   by name; each with its links by peer
//   jobs    by number; each with its settings by key
//   roles   by "NODE/ROLE"
//   roots   the roles that hold up others, the worst first (actors/repl/waits.hpp)
//   edges   by role: the roles that it waits for, at most `max_edges`
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>

#include "actors/page/rights.hpp"
#include "runtime/cluster/view/view.hpp"

namespace troupe {

inline constexpr std::size_t max_edges = 8;

nlohmann::json page_state(const repl_view& v, page_role role);

// The finite number nearest to x with six significant digits; nullopt: x is not finite.
std::optional<double> shown_number(double x);

}  // namespace troupe
