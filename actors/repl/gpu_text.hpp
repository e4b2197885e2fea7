// Formats GPUs for the REPL's replies. Private to actors/repl/.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "runtime/cluster/view/view.hpp"

namespace troupe {

// Values that are unknown are left out.
nlohmann::ordered_json gpus_json(const std::vector<repl_gpu>& list);
std::string gpu_line(const repl_gpu& g);             // "gpu:0 (NAME): 1.2 GiB of 79.6 GiB used, ..."
std::string gpus_of_nodes_text(const repl_view& v);  // a table below that of the nodes; empty: no GPUs

}  // namespace troupe
