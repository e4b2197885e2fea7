// How each layer type of Caffe becomes a layer of Troupe.
// Threads: pure functions.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runtime/node/models/caffe/job_model.hpp"
#include "runtime/node/models/caffe/net.hpp"

namespace troupe::caffe {

// The second top of a max pooling, the positions of its maxima: what an unpool needs to find them.
struct pool_mask {
  std::string input;  // of the pooling
  toml_keys keys;     // its windows
  std::int64_t stride_h = 1, stride_w = 1;
};

// A layer during the translation. Its inputs are resolved already; a rule sets type and keys.
struct layer_mapping {
  net_layer& from;
  job_layer& to;
  findings& found;
  bool with_weights = false;  // the net's blobs are known
  bool image = false;         // its first input has the axes of an image
  std::int64_t channels = 0;  // of its first input; 0: unknown
  std::function<std::string(const std::string&)> fresh_name = {};
  std::function<std::vector<std::int64_t>(const std::string&)> extents_of = {};  // of an example of a tensor; empty: unknown
  std::vector<job_layer> before = {};                                            // layers that compute its inputs
  const pool_mask* mask = nullptr;                                               // its second bottom, if that is one
  std::optional<pool_mask> made = {};                                            // its second top

  message_reader& fields() const { return from.fields(); }

  // The layer's blobs as parameters. An extent of 0 matches any. Also sets lr_scale and
  // decay_scale.
  struct wanted {
    const char* name;
    std::vector<std::int64_t> dims;
    bool transposed = false;  // the blob has the two axes in the other order
  };
  void parameters(const std::vector<wanted>& list, double decay_of_troupe = 1);
  void take_shares(const std::vector<wanted>& list);
  // A blob as a parameter of one axis: the others have the extent 1.
  void flat_parameter(std::size_t k, const char* name);
  // The single weight of Caffe's layer as `weight`, the same for each channel.
  void shared_scale();
  // A parameter with one value for all channels, which Caffe's layer does not store.
  void constant(const char* name, const std::string& key, double value);
  // Adds a layer in front, named for this one; returns its name.
  std::string insert(const std::string& suffix, const std::string& type, std::vector<std::string> inputs);
  void set_of_inserted(const toml_keys& keys) { before.back().keys = keys; }  // of the last one
  // Channels, height and width of the first input; a mistake and empty if they are not known.
  std::vector<std::int64_t> image_extents();
  // A key *_filler from the FillerParameter `field` of `m`.
  void filler(message_reader& m, const std::string& field, const std::string& key);
};

using layer_rule = void (*)(layer_mapping&);

// Null: Troupe has no such layer.
layer_rule rule_of(const std::string& type);
bool is_data_layer(const net_layer& l);

// Rules with weights, in layer_rules_weights.cpp.
void map_convolution(layer_mapping& m);
void map_deconvolution(layer_mapping& m);
void map_inner_product(layer_mapping& m);
void map_embed(layer_mapping& m);
void map_prelu(layer_mapping& m);
void map_batch_norm(layer_mapping& m);
void map_bn(layer_mapping& m);
void map_depthwise(layer_mapping& m);
void map_scale(layer_mapping& m);
void map_bias(layer_mapping& m);

// An extent in pixels, given for both axes (once or twice) or for height and width.
struct extents {
  std::int64_t h = 0, w = 0;
  bool given = false;
  bool are(std::int64_t v) const { return h == v && w == v; }
  std::string toml() const;  // one number, or [h, w]
};
extents read_extents(message_reader& p, const std::string& both, const std::string& h, const std::string& w, std::int64_t otherwise,
                     std::int64_t least);

// running_mean and running_var of the three blobs of a BatchNorm: the sums times 1 / factor, as
// Caffe computes them; 0 if the factor is 0.
std::vector<float> unscaled_statistics(const std::vector<float>& sums, float factor);

}  // namespace troupe::caffe
