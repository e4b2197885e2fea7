// The list of stock layers. NAME_layer() is defined in NAME.cpp.
#include "ops/registry.hpp"

// clang-format off
#define TROUPE_STOCK_LAYERS(LAYER) \
  LAYER(accuracy) \
  LAYER(avg_pool) \
  LAYER(batch_norm) \
  LAYER(bias) \
  LAYER(channel_scale) \
  LAYER(concat) \
  LAYER(convolution) \
  LAYER(crop) \
  LAYER(deconvolution) \
  LAYER(dropout) \
  LAYER(eltwise) \
  LAYER(elu) \
  LAYER(embedding) \
  LAYER(euclidean) \
  LAYER(flatten) \
  LAYER(gelu) \
  LAYER(group_norm) \
  LAYER(gru) \
  LAYER(hard_sigmoid) \
  LAYER(hard_swish) \
  LAYER(hinge) \
  LAYER(instance_norm) \
  LAYER(layer_norm) \
  LAYER(linear) \
  LAYER(lrn) \
  LAYER(lstm) \
  LAYER(matmul) \
  LAYER(max_pool) \
  LAYER(pad) \
  LAYER(permute) \
  LAYER(prelu) \
  LAYER(rbm) \
  LAYER(relu) \
  LAYER(relu6) \
  LAYER(reshape) \
  LAYER(rnn) \
  LAYER(scale) \
  LAYER(sequence_convolution) \
  LAYER(sigmoid) \
  LAYER(sigmoid_cross_entropy) \
  LAYER(silu) \
  LAYER(slice) \
  LAYER(softmax) \
  LAYER(softmax_loss) \
  LAYER(split) \
  LAYER(squared_error) \
  LAYER(tanh) \
  LAYER(unpool) \
  LAYER(upsample)
// clang-format on

namespace troupe {

#define TROUPE_DECLARE(name) layer_type name##_layer();
TROUPE_STOCK_LAYERS(TROUPE_DECLARE)

void add_stock_layers(layer_registry& r) {
  const auto add = [&](layer_type row) {
    row.takes_bf16 = true;
    r.add(std::move(row));
  };
#define TROUPE_ADD(name) add(name##_layer());
  TROUPE_STOCK_LAYERS(TROUPE_ADD)
}

}  // namespace troupe
