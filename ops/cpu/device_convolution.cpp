// The CPU device: convolutions, with the algorithm of each pass (conv.cpp).
#include "ops/cpu/conv.hpp"
#include "ops/cpu/cpu_device.hpp"
#include "ops/cpu/onednn.hpp"

namespace troupe::cpu {

void cpu_device::conv_forward(const conv_geometry& g, const tensor& x, const tensor& w, const tensor& bias, tensor& y) {
  run("conv", y, [&](const auto& k, auto v) {
    using T = decltype(v);
    passes_of<T>(g, conv_pass::forward, level())
        .forward(*this, k, g, x.data<T>(), w.data<T>(), static_cast<const T*>(optional_data(bias)), out<T>(y));
  });
}

void cpu_device::conv_backward_data(const conv_geometry& g, const tensor& dy, const tensor& w, tensor& dx) {
  run("conv", dx, [&](const auto& k, auto v) {
    using T = decltype(v);
    passes_of<T>(g, conv_pass::backward_data, level()).backward_data(*this, k, g, dy.data<T>(), w.data<T>(), out<T>(dx));
  });
}

void cpu_device::conv_backward_weights(const conv_geometry& g, const tensor& x, const tensor& dy, tensor& dw, bool add) {
  run("conv", dw, [&](const auto& k, auto v) {
    using T = decltype(v);
    passes_of<T>(g, conv_pass::backward_weights, level()).backward_weights(*this, k, g, x.data<T>(), dy.data<T>(), out<T>(dw), add);
  });
}

i64 cpu_device::images_at_once(const conv_geometry& g) const { return cpu::images_at_once(g, level()); }

conv_algorithm cpu_device::algorithm_on(const conv_geometry& g, conv_pass pass) const {
  const auto a = algorithm_of(g, pass);
  return a == conv_algorithm::automatic ? automatic_choice(g, pass, level()) : a;
}

void cpu_device::conv_tail_forward(const conv_geometry& g, const conv_tail& t, const tensor& x, const tensor& w, const tensor& bias,
                                   tensor& y, tensor& index) {
  if (!t.pools || y.type() != dtype::f32 || !in_vectors(g, {conv_pass::forward}, level()))
    return device::conv_tail_forward(g, t, x, w, bias, y, index);
  conv_batch_pooled(*this, set_.f32, g, t.window, x.data<float>(), w.data<float>(), static_cast<const float*>(optional_data(bias)),
                    out<float>(y), out<std::int32_t>(index));
  if (t.maps) map(t.f, t.parameter, y, y);
}

void cpu_device::conv_tail_backward(const conv_geometry& g, const conv_tail& t, const tensor& x, const tensor& w, const tensor& y,
                                    const tensor& index, const tensor& dy, tensor& dx, tensor& dw, tensor& db) {
  if (dy.type() != dtype::f32 || !in_vectors(g, {conv_pass::backward_data, conv_pass::backward_weights}, level()))
    return device::conv_tail_backward(g, t, x, w, y, index, dy, dx, dw, db);
  tensor gradient = dy;
  if (t.maps) {
    gradient = tensor::allocate(*this, dy.dims(), dy.type());
    map_backward(t.f, t.parameter, {}, y, dy, gradient);
  }
  const auto wanted = [](tensor& made) { return made.backed() ? out<float>(made) : nullptr; };
  conv_batch_backward(*this, set_.f32, g, t.pools ? &t.window : nullptr, x.data<float>(), w.data<float>(), gradient.data<float>(),
                      t.pools ? index.data<std::int32_t>() : nullptr, wanted(dx), wanted(dw), wanted(db));
}

// oneDNN computes both gradients in one call, from dy in its own layout.
void cpu_device::conv_backward_parameters(const conv_geometry& g, const tensor& x, const tensor& dy, tensor& dw, tensor& db,
                                          bool add) {
  if (dy.type() != dtype::f32 || !db.backed() || algorithm_of(g, conv_pass::backward_weights) != conv_algorithm::onednn)
    return device::conv_backward_parameters(g, x, dy, dw, db, add);
  tensor to = dw.backed() ? dw : tensor::allocate(*this, shape{g.outputs * g.patch()}, dy.type());
  conv_onednn_parameters(*this, set_.f32, g, x.data<float>(), dy.data<float>(), out<float>(to), out<float>(db), add);
}

namespace {

// Calls inside(row of the column matrix, output pixel, element of the plane) for elements inside
// the image, and outside(row, output pixel) for padding.
template <class F, class P>
void each_patch_element(const conv_geometry& g, F inside, P outside) {
  const i64 taps = g.kernel_h * g.kernel_w, out_h = g.out_h(), out_w = g.out_w();
  for (i64 row = 0; row < g.patch(); ++row) {
    const i64 c = row / taps, i = row % taps / g.kernel_w, j = row % g.kernel_w;
    for (i64 oy = 0; oy < out_h; ++oy)
      for (i64 ox = 0; ox < out_w; ++ox) {
        const i64 y = oy * g.stride_h - g.pad_h + i * g.dilation_h, x = ox * g.stride_w - g.pad_w + j * g.dilation_w;
        const i64 at = row * out_h * out_w + oy * out_w + ox;
        if (y >= 0 && y < g.height && x >= 0 && x < g.width)
          inside(at, (c * g.height + y) * g.width + x);
        else
          outside(at);
      }
  }
}

}  // namespace

void cpu_device::im2col(const conv_geometry& g, i64 image, i64 group, const tensor& x, tensor& col) {
  run("im2col", col, [&](const auto&, auto v) {
    using T = decltype(v);
    const T* from = x.data<T>() + (image * g.channels + group * g.group_channels()) * g.height * g.width;
    T* to = out<T>(col);
    each_patch_element(
        g, [&](i64 at, i64 element) { to[at] = from[element]; }, [&](i64 at) { to[at] = T(0); });
  });
}

void cpu_device::col2im(const conv_geometry& g, i64 image, i64 group, const tensor& col, tensor& dx) {
  run("col2im", dx, [&](const auto&, auto v) {
    using T = decltype(v);
    const T* from = col.data<T>();
    T* to = out<T>(dx) + (image * g.channels + group * g.group_channels()) * g.height * g.width;
    each_patch_element(
        g, [&](i64 at, i64 element) { to[element] += from[at]; }, [](i64) {});
  });
}

}  // namespace troupe::cpu
