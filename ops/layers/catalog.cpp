// The stock layers: one line each. NAME_layer() is defined in NAME.cpp.
#include "ops/registry.hpp"

// clang-format off
#define TROUPE_STOCK_LAYERS(LAYER) \
  LAYER(accuracy) \
  LAYER(avg_pool) \
  LAYER(concat) \
  LAYER(convolution) \
  LAYER(dropout) \
  LAYER(eltwise) \
  LAYER(flatten) \
  LAYER(gru) \
  LAYER(linear) \
  LAYER(lrn) \
  LAYER(lstm) \
  LAYER(max_pool) \
  LAYER(relu) \
  LAYER(rnn) \
  LAYER(slice) \
  LAYER(softmax_loss)
// clang-format on

namespace troupe {

#define TROUPE_DECLARE(name) layer_type name##_layer();
TROUPE_STOCK_LAYERS(TROUPE_DECLARE)

void add_stock_layers(layer_registry& r) {
#define TROUPE_ADD(name) r.add(name##_layer());
  TROUPE_STOCK_LAYERS(TROUPE_ADD)
}

}  // namespace troupe
