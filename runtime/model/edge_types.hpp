// Element types of a graph's edges: values, or ids (i32) that select a score or a row. Values used
// as ids, or ids beyond a layer's table, would index memory out of bounds; therefore every edge is
// checked when the graph is built.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/model/graph.hpp"

namespace troupe {

struct edge_mistake {
  std::string key;  // of the layer's table
  std::string text;
};

// Returns the first input of `l` whose type the layer cannot read. The shapes of `l` are known.
std::optional<edge_mistake> wrong_type(const model_graph& g, const graph_layer& l, const job_spec& job);
// Returns the inputs of `l` that may receive ids beyond the layer's table, because the data has
// more ids.
std::vector<edge_mistake> wrong_ids(const model_graph& g, const graph_layer& l);
// Sets label_below and id_below of a valid graph.
void bound_ids(model_graph& g);

}  // namespace troupe
