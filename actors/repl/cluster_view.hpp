// What all daemons of a cluster say about their own roles, as one view, for a client. In contrast
// to the view of the coordinator's daemon it needs no daemon in particular.
#pragma once

#include <optional>

#include "actors/control/client/node_links.hpp"
#include "runtime/cluster/view/view.hpp"

namespace troupe {

struct cluster_look {
  // Nodes that do not answer have the state "silent" and the reason as note; the roles that the
  // others know to be there are in the view, with empty states. A job has its layers as `about`.
  repl_view view;
  std::optional<double> usual_step;  // seconds, of the job on the first node that knows it
};
// `coordinator`: name of the coordinator's node.
cluster_look look_at_cluster(node_links& nodes, const std::string& cluster, const std::string& coordinator);

}  // namespace troupe
