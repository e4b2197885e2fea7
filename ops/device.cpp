// Default implementations of device members in terms of the primitives: the reference convolution
// and small helpers.
#include "ops/device.hpp"

#include <cassert>
#include <stdexcept>

#include "ops/conv_algorithm.hpp"
#include "ops/packet_sum.hpp"

namespace troupe {

void device::finish_task() {
  if (end_task()) return;
  if (const auto failure = wait_over(); !failure.empty()) throw std::runtime_error(failure);
}

double device::scalar(const tensor& t) {
  assert(t.count() == 1);
  if (t.type() == dtype::f64) {
    double v = 0;
    download(t, &v);
    return v;
  }
  if (t.type() == dtype::bf16) {
    tensor wide = tensor::allocate(*this, t.dims(), dtype::f32);
    copy(t, wide);
    return scalar(wide);
  }
  assert(t.type() == dtype::f32);
  float v = 0;
  download(t, &v);
  return static_cast<double>(v);
}

void device::fetch(const tensor& from, tensor& to) {
  assert(from.type() == to.type());
  copy(from, to);
}

void device::sum_across(const tensors& parts, tensor& out) {
  assert(!parts.empty());
  fetch(parts.front(), out);
  for (std::size_t i = 1; i < parts.size(); ++i) axpy(1.0, brought(*this, parts[i]), out);
}

void device::later(const tensor& t, std::function<void(double)> then) { then(scalar(t)); }

tensor brought(device& d, const tensor& t) {
  if (!t.backed() || t.space() == d.space()) return t;
  tensor here = tensor::allocate(d, t.dims(), t.type());
  d.fetch(t, here);
  return here;
}

tensor brought_home(device& d, const tensor& t) {
  if (!t.backed() || t.space().host()) return t;
  tensor here = tensor::allocate(d.host(), t.dims(), t.type());
  d.fetch(t, here);
  return here;
}

conv_algorithm device::algorithm_on(const conv_geometry& g, conv_pass pass) const {
  const auto a = algorithm_of(g, pass);
  return a == conv_algorithm::automatic ? conv_algorithm::lowering1 : a;
}

tensor device::pack(const gemm_spec&, const tensor& b) { return b; }
void device::gemm_packed(const gemm_spec& s, const tensor& a, const tensor& packed, tensor& c) { gemm(s, a, packed, c); }

void device::gemm_stacked(const gemm_spec& s, std::int64_t packets, const tensor& a, const tensor& b, tensor& c) {
  assert(!s.transpose_a);
  for (std::int64_t p = 0; p < packets; ++p) {
    tensor rows = c.slice(p * s.m * s.n, {s.m, s.n});
    gemm(s, a.slice(p * s.m * s.k, {s.m, s.k}), b, rows);
  }
}

void device::gemm_summed(const gemm_spec& s, std::int64_t packets, const tensor& a, const tensor& b, tensor& c) {
  assert(s.transpose_a && !s.transpose_b);
  sum_over_packets(*this, packets, c, [&](std::int64_t p, tensor& product) {
    gemm(s, a.slice(p * s.k * s.m, {s.k, s.m}), b.slice(p * s.k * s.n, {s.k, s.n}), product);
  });
}

bool device::needs_input(unary f) {
  return f == unary::log || f == unary::square || f == unary::absolute || f == unary::gelu || f == unary::gelu_tanh ||
         f == unary::relu6 || f == unary::silu || f == unary::hard_sigmoid || f == unary::hard_swish;
}

namespace {

// Views of one image and one group of a convolution.
struct conv_slices {
  const conv_geometry& g;
  std::int64_t columns() const { return g.pixels(); }
  tensor output(const tensor& y, std::int64_t image, std::int64_t group) const {
    const auto rows = g.group_outputs();
    return y.slice((image * g.outputs + group * rows) * columns(), shape{rows, columns()});
  }
  tensor weights(const tensor& w, std::int64_t group) const {
    return w.slice(group * g.group_outputs() * g.patch(), shape{g.group_outputs(), g.patch()});
  }
};

template <class F>
void each_image_and_group(const conv_geometry& g, F f) {
  for (std::int64_t image = 0; image < g.batch; ++image)
    for (std::int64_t group = 0; group < g.groups; ++group) f(image, group);
}

}  // namespace

void device::conv_forward(const conv_geometry& g, const tensor& x, const tensor& w, const tensor& bias, tensor& y) {
  const conv_slices s{g};
  tensor col = tensor::allocate(*this, shape{g.patch(), g.pixels()}, x.type());
  each_image_and_group(g, [&](std::int64_t image, std::int64_t group) {
    im2col(g, image, group, x, col);
    tensor out = s.output(y, image, group);
    gemm({.m = g.group_outputs(), .n = g.pixels(), .k = g.patch()}, s.weights(w, group), col, out);
  });
  if (bias) add_bias(g.batch, g.outputs, g.pixels(), bias, y);
}

void device::conv_backward_data(const conv_geometry& g, const tensor& dy, const tensor& w, tensor& dx) {
  const conv_slices s{g};
  fill(0.0, dx);
  tensor col = tensor::allocate(*this, shape{g.patch(), g.pixels()}, dy.type());
  each_image_and_group(g, [&](std::int64_t image, std::int64_t group) {
    gemm({.transpose_a = true, .m = g.patch(), .n = g.pixels(), .k = g.group_outputs()}, s.weights(w, group),
         s.output(dy, image, group), col);
    col2im(g, image, group, col, dx);
  });
}

void device::conv_backward_weights(const conv_geometry& g, const tensor& x, const tensor& dy, tensor& dw, bool add) {
  const conv_slices s{g};
  tensor col = tensor::allocate(*this, shape{g.patch(), g.pixels()}, x.type());
  each_image_and_group(g, [&](std::int64_t image, std::int64_t group) {
    im2col(g, image, group, x, col);
    tensor out = s.weights(dw, group);
    gemm({.transpose_b = true, .m = g.group_outputs(), .n = g.patch(), .k = g.pixels(), .beta = image == 0 && !add ? 0.0 : 1.0},
         s.output(dy, image, group), col, out);
  });
}

void device::conv_backward_parameters(const conv_geometry& g, const tensor& x, const tensor& dy, tensor& dw, tensor& db, bool add) {
  if (db.backed()) {
    tensor made = add ? tensor::allocate(*this, db.dims(), db.type()) : db;
    reduce_sum(g.batch, g.outputs, g.pixels(), dy, made);
    if (add) axpy(1.0, made, db);
  }
  if (dw.backed()) conv_backward_weights(g, x, dy, dw, add);
}

}  // namespace troupe
