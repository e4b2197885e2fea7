// Which layers of a stage are computed as one: a layer and the only reader of its output, if the
// layer can absorb the reader (layer::absorb). Results are bit-identical to those of the separate
// layers, so fusing is invisible to the rest: gradients, weights, seeds, edges and messages are
// those of the separate layers.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "runtime/model/graph.hpp"

namespace troupe {

struct maths_step {
  std::vector<std::size_t> at;  // indices into the given layers: inputs of the first are read, outputs of the last are written
  std::shared_ptr<const layer> maths;  // its parameters: those of all layers, concatenated
  std::size_t first() const { return at.front(); }
  std::size_t last() const { return at.back(); }
};

// `layers`: of one stage (or the parts of them hosted there), in topological order. Without `fuse`:
// one step per layer. Steps are in the order of their first layers, which is a valid order of
// computation; backward runs in reverse order.
std::vector<maths_step> maths_steps(const model_graph& g, const std::vector<const graph_layer*>& layers, bool fuse);

// The layer that computes `maths` (which already covers layers `first` to `last`) and `next` as
// one; null: they cannot be fused.
std::shared_ptr<const layer> absorbed(const model_graph& g, const graph_layer& first, const graph_layer& last, const layer& maths,
                                      const graph_layer& next);

// The display name of a step: "conv1+relu1".
std::string name_of(const maths_step& s, const std::vector<const graph_layer*>& layers);

}  // namespace troupe
