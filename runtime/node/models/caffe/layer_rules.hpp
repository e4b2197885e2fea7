// How each layer type of Caffe becomes a layer of Troupe.
// Threads: pure functions.
#pragma once

#include <string>
#include <vector>

#include "runtime/node/models/caffe/job_model.hpp"
#include "runtime/node/models/caffe/net.hpp"

namespace troupe::caffe {

// A layer during the translation. Its inputs are resolved already; a rule sets type and keys.
struct layer_mapping {
  net_layer& from;
  job_layer& to;
  findings& found;
  bool with_weights = false;  // the net's blobs are known
  bool image = false;         // its first input has the axes of an image

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
  // A key *_filler from the FillerParameter `field` of `m`.
  void filler(message_reader& m, const std::string& field, const std::string& key);
};

using layer_rule = void (*)(layer_mapping&);

// Null: Troupe has no such layer.
layer_rule rule_of(const std::string& type);
bool is_data_layer(const std::string& type);

// Rules with weights, in layer_rules_weights.cpp.
void map_convolution(layer_mapping& m);
void map_deconvolution(layer_mapping& m);
void map_inner_product(layer_mapping& m);
void map_embed(layer_mapping& m);
void map_prelu(layer_mapping& m);
void map_batch_norm(layer_mapping& m);
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
