// Reads the files of one model: a net (.prototxt), weights (.caffemodel), a solver, files of nodes.
// A .caffemodel alone is its own net.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "runtime/node/models/caffe/fields.hpp"
#include "runtime/node/models/caffe/job_model.hpp"
#include "runtime/node/models/caffe/net.hpp"
#include "runtime/node/models/model_format.hpp"

namespace troupe::caffe {

expected<imported_model, diagnostics> import_files(const import_request& asked);

// The same for contents, for tests: {name of the file, bytes}.
struct named_text {
  std::string file;
  std::string bytes;
};
expected<imported_model, diagnostics> import_texts(const std::vector<named_text>& files, const name_pairs& names);

// Caffe's solver as the tables [train.dynamics], [train.finish], [eval], [checkpoint] of a job.
//   lr_policy  fixed, step, exp, inv, multistep, poly -> schedule
//   type       SGD, Nesterov, AdaGrad, RMSProp, AdaDelta, Adam -> rule
//   iter_size  packets of a batch that is as many times as large

// Whether the message is a SolverParameter.
bool is_solver(const proto_field& tree);

void read_solver(const proto_field& tree, job_model& job, findings& found);

// Momentum, a rate and a number of steps to begin with, and a comment that says so.
void assume_solver(job_model& job);

// Which device or node computes a layer, as two relatives of Caffe say it.
//   Caffe con Troll    gpu_K_batch_proportion, gpu_K_depth_proportion of a layer, K from 0 to 3:
//                      shares of the batch or of the outputs; the CPU has the rest of the batch
//                      -> `place`, `fraction`, `partition` and [job] devices
//   multi-node Caffe   (BVLC/caffe#3441) a file for each node: start_layer, end_layers, num_splits
//                      -> `place` with the names of the files

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
