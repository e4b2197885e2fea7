// Which device or node computes a layer, as two relatives of Caffe say it.
//   Caffe con Troll    gpu_K_batch_proportion, gpu_K_depth_proportion of a layer, K from 0 to 3:
//                      shares of the batch or of the outputs; the CPU has the rest of the batch
//                      -> `place`, `fraction`, `partition` and [job] devices
//   multi-node Caffe   (BVLC/caffe#3441) a file for each node: start_layer, end_layers, num_splits
//                      -> `place` with the names of the files
// Threads: pure functions.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "runtime/node/models/caffe/job_model.hpp"
#include "runtime/node/models/caffe/net.hpp"

namespace troupe::caffe {

// Shares of one layer; a layer without fields has none.
struct layer_shares {
  std::vector<double> batch, depth;  // by GPU; empty: not given
};

// Reads the fields of Caffe con Troll, so that they count as known. By the layer's name.
using shares_of_layers = std::map<std::string, layer_shares>;
shares_of_layers read_shares(net& from);

// Nothing, if no layer has shares.
void write_shares(const shares_of_layers& shares, job_model& job, findings& found);

// A file of a node of multi-node Caffe.
struct node_file {
  std::string node, file;
  const proto_field* tree = nullptr;
};
bool is_node_file(const proto_field& tree);
void write_nodes(const std::vector<node_file>& nodes, const net& from, job_model& job, findings& found);

}  // namespace troupe::caffe
