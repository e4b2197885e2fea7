// A net of Caffe: its layers in order, in one form for both that Caffe has had, `layer` (type in
// quotes) and the older `layers` (V1, type as an enum).
//   include, exclude  which of the phases TRAIN and TEST a layer is in, as Caffe decides with level
//                     0 and no stages
//   input, input_dim  become a layer of type Input
//   layer.phase       is ignored: Caffe writes it into every layer of a .caffemodel
// Threads: one net, one thread.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/node/models/caffe/fields.hpp"
#include "runtime/node/models/caffe/wire.hpp"

namespace troupe::caffe {

struct param_factors {
  double lr = 1, decay = 1;
};

// A parameter of an earlier layer, with the same `name` in param { }.
struct shared_param {
  std::string layer;
  std::size_t index = 0;
};

struct net_layer {
  std::string name, type;
  std::vector<std::string> bottoms, tops;
  bool train = true, test = true;  // the phases that it is in
  std::vector<param_factors> params;
  std::map<std::size_t, shared_param> shares;  // by index of the layer's parameter
  std::vector<double> loss_weights;
  std::vector<bool> propagate;                    // propagate_down
  std::vector<std::vector<std::int64_t>> inputs;  // of a layer that was made of `input`: the shapes of its tops
  std::vector<const blob*> blobs;                 // of the file that the net was read from
  std::unique_ptr<message_reader> rest;           // the fields that are not read yet
  std::string title() const;                      // "layer 'conv1' (Convolution)"
  void error(const std::string& what);            // at the layer
  message_reader& fields() { return *rest; }
};

struct net {
  std::string name;
  std::vector<net_layer> layers;
};

// `tree` must outlive the net, `blobs` may be null. Mistakes are in `found`; some are found only
// when the net is destroyed (message_reader).
net read_net(const proto_field& tree, const std::vector<blob>* blobs, findings& found);

// The names of Caffe's layer types for those of V1: "Convolution" for CONVOLUTION; empty: none.
std::string type_of_v1(const std::string& word);

// The shape of the message BlobShape.
std::vector<std::int64_t> read_shape(message_reader& shape);

}  // namespace troupe::caffe
