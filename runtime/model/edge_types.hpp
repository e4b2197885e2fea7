// What travels over a graph's edges: values, or numbers of things (i32) that name a score or a row.
// Values read as numbers, and numbers beyond what a layer has a place for, would be memory that is
// nobody's; so every edge is checked when the graph is built.
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

// An input of `l`, whose shapes are known, that is given what it cannot read.
std::optional<edge_mistake> wrong_type(const model_graph& g, const graph_layer& l, const job_spec& job);
// Inputs of `l` that may be given ids for which it has no place: the data has more of them.
std::vector<edge_mistake> wrong_ids(const model_graph& g, const graph_layer& l);
// Sets label_below and id_below of a graph that is sound.
void bound_ids(model_graph& g);

}  // namespace troupe
