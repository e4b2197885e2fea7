// Which layers of a stage are computed as one: a layer and the only reader of its output, where the
// layer can absorb it (layer::absorb). The bits are those of the layers apart, so whether it is
// done, and where, is nobody else's matter: gradients, weights, seeds, edges and messages are those
// of the layers.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "runtime/model/graph.hpp"

namespace troupe {

struct maths_step {
  std::vector<std::size_t> at;  // which of the given layers: the first one's inputs are read, the last one's output is written
  std::shared_ptr<const layer> maths;  // parameters: those of all, one after the other
  std::size_t first() const { return at.front(); }
  std::size_t last() const { return at.back(); }
};

// `layers`: of one stage (or the parts of them that are there), in topological order. Without
// `fuse`: a step a layer. Steps are in the order of their first layers, which is one in which they
// can be computed; and backwards, in the other.
std::vector<maths_step> maths_steps(const model_graph& g, const std::vector<const graph_layer*>& layers, bool fuse);

// The layer that computes `maths` (which stands for layers `first` to `last` already) and `next` as
// one; null: they stay apart.
std::shared_ptr<const layer> absorbed(const model_graph& g, const graph_layer& first, const graph_layer& last, const layer& maths,
                                      const graph_layer& next);

// "conv1+relu1": what is written of a step.
std::string name_of(const maths_step& s, const std::vector<const graph_layer*>& layers);

}  // namespace troupe
