// Default implementation of a convolution with its tail (device.hpp), block by block of images, in
// terms of a device's other primitives.
#include <algorithm>
#include <cassert>

#include "ops/device.hpp"

namespace troupe {

namespace {

// Images [first, first + count) of a batch: geometry and views of each tensor for the primitives.
struct image_block {
  conv_geometry g;
  pool_geometry window;
  std::int64_t first, x, z, y;  // x, z, y: elements per image of the input, of the convolution's result, and of the tail's result

  image_block(const conv_geometry& all, const conv_tail& t, std::int64_t from, std::int64_t count)
      : g(all), window(t.window), first(from), x(all.channels * all.height * all.width), z(all.outputs * all.pixels()) {
    g.batch = count, g.of_batch = all.batch;
    window.planes = count * all.outputs;
    y = t.pools ? all.outputs * window.out_h * window.out_w : z;
  }
  tensor of(const tensor& t, std::int64_t each) const { return t ? t.slice(first * each, shape{g.batch * each}) : tensor(); }
};

template <class F>
void each_block(device& d, const conv_geometry& g, const conv_tail& t, F f) {
  const std::int64_t at_once = std::max<std::int64_t>(1, d.images_at_once(g));
  for (std::int64_t first = 0; first < g.batch; first += at_once) f(image_block(g, t, first, std::min(at_once, g.batch - first)));
}

// The gradient of a block's convolution result: dy itself, or computed in `sums`; `mapped` is
// scratch memory if the tail both maps and pools.
tensor gradient_of_sums(device& d, const image_block& b, const conv_tail& t, const tensor& y, const tensor& index, const tensor& dy,
                        const tensor& sums, const tensor& mapped) {
  tensor gradient = b.of(dy, b.y);
  if (t.maps) {
    tensor to = (t.pools ? mapped : sums).slice(0, shape{b.g.batch * b.y});
    d.map_backward(t.f, t.parameter, {}, b.of(y, b.y), gradient, to);
    gradient = to;
  }
  if (!t.pools) return gradient;
  tensor to = sums.slice(0, shape{b.g.batch * b.z});
  d.max_pool_backward(b.window, gradient, b.of(index, b.y), to);
  return to;
}

}  // namespace

std::int64_t device::images_at_once(const conv_geometry& g) const { return g.batch; }

void device::conv_tail_forward(const conv_geometry& g, const conv_tail& t, const tensor& x, const tensor& w, const tensor& bias,
                               tensor& y, tensor& index) {
  if (!t.pools && !t.maps) return conv_forward(g, x, w, bias, y);
  assert(!t.maps || !needs_input(t.f));
  tensor sums;
  each_block(*this, g, t, [&](const image_block& b) {
    if (t.pools && !sums) sums = tensor::allocate(*this, shape{b.g.batch * b.z}, y.type());
    tensor to = b.of(y, b.y), made = t.pools ? sums.slice(0, shape{b.g.batch * b.z}) : to;
    conv_forward(b.g, b.of(x, b.x), w, bias, made);
    if (t.pools) {
      tensor winners = b.of(index, b.y);
      max_pool(b.window, made, to, winners);
    }
    if (t.maps) map(t.f, t.parameter, to, to);
  });
}

void device::conv_tail_backward(const conv_geometry& g, const conv_tail& t, const tensor& x, const tensor& w, const tensor& y,
                                const tensor& index, const tensor& dy, tensor& dx, tensor& dw, tensor& db) {
  tensor sums, mapped;
  each_block(*this, g, t, [&](const image_block& b) {
    const bool first = b.first == 0;
    if (first && (t.pools || t.maps)) sums = tensor::allocate(*this, shape{b.g.batch * b.z}, dy.type());
    if (first && t.pools && t.maps) mapped = tensor::allocate(*this, shape{b.g.batch * b.y}, dy.type());
    const tensor gradient = gradient_of_sums(*this, b, t, y, index, dy, sums, mapped);
    conv_backward_parameters(b.g, b.of(x, b.x), gradient, dw, db, !first);
    if (dx.backed()) {
      tensor to = b.of(dx, b.x);
      conv_backward_data(b.g, gradient, w, to);
    }
  });
}

}  // namespace troupe
