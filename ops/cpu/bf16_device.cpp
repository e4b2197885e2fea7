#include "ops/cpu/bf16_device.hpp"

#include <algorithm>
#include <cassert>

#include "ops/bf16.hpp"
#include "ops/cpu/bf16_product.hpp"
#include "ops/widened.hpp"

namespace troupe::cpu {

namespace {

constexpr i64 piece = 8192;  // in elements; the L1 cache holds most of a few f32 operands of this size

template <class... Tensor>
bool all_bf16(const Tensor&... t) {
  return ((t.type() == dtype::bf16) && ...);
}

// bf16 tensors between two convolutions have the standard layout.
conv_geometry in_planes(conv_geometry g) {
  g.own_x = g.own_y = false;
  return g;
}

const half* bits(const tensor& t) { return &t.data<bf16>()->bits; }
half* bits(tensor& t) { return &t.mutable_data<bf16>()->bits; }

// Calls f(first, count) for pieces of n rows of `each` elements, about `piece` elements each.
template <class F>
void stretches(i64 n, i64 each, F f) {
  const i64 at_once = std::max<i64>(1, piece / std::max<i64>(1, each));
  for (i64 first = 0; first < n; first += at_once) f(first, std::min(at_once, n - first));
}

class bf16_device final : public widened {
 public:
  bf16_device(std::unique_ptr<device> within, const half_kernels& k, const amx_kernels* tiles)
      : widened(std::move(within)), d_(&this->within()), k_(k), tiles_(tiles) {}

  std::string numerics_id() const override { return d_->numerics_id() + (tiles_ ? "/amx" : ""); }

  void fill(double value, tensor& t) override {
    if (!any_bf16(t)) return d_->fill(value, t);
    std::fill_n(bits(t), t.count(), to_bf16(static_cast<float>(value)).bits);
  }
  // Conversions to and from types other than f32 go through f32.
  void copy(const tensor& from, tensor& to) override {
    assert(from.count() == to.count());
    if (from.type() == to.type() || !any_bf16(from, to)) return d_->copy(from, to);
    if (from.type() == dtype::f32) return k_.narrow(from.count(), from.data<float>(), bits(to));
    if (to.type() == dtype::f32) return k_.widen(from.count(), bits(from), to.mutable_data<float>());
    tensor between = tensor::allocate(*this, from.dims(), dtype::f32);
    copy(from, between);
    copy(between, to);
  }
  void copy_block(const block& b, const tensor& from, tensor& to) override {
    if (from.type() == to.type()) return d_->copy_block(b, from, to);
    const shape dense{b.rows * b.length};
    tensor taken = tensor::allocate(*this, dense, from.type()), made = tensor::allocate(*this, dense, to.type());
    d_->copy_block({b.rows, b.length, b.from_offset, b.from_stride, 0, b.length}, from, taken);
    copy(taken, made);
    d_->copy_block({b.rows, b.length, 0, b.length, b.to_offset, b.to_stride}, made, to);
  }

  // A product of f32 factors is computed in f32, whatever the type of c.
  void gemm(const gemm_spec& s, const tensor& a, const tensor& b, tensor& c) override {
    if (any_bf16(a, b)) return gemm_bf16(*this, tiles_, s, a, b, c);
    in_f32 w(*this);
    d_->gemm(s, a, b, w.in_out(c));
  }
  tensor pack(const gemm_spec& s, const tensor& b) override {
    if (any_bf16(b) && tiles_) return b;
    return d_->pack(s, in_f32(*this).in(b));
  }
  void gemm_packed(const gemm_spec& s, const tensor& a, const tensor& packed, tensor& c) override {
    if (any_bf16(packed)) return gemm_bf16(*this, tiles_, s, a, packed, c);
    in_f32 w(*this);
    d_->gemm_packed(s, w.in(a), packed, w.in_out(c));
  }
  void gemm_stacked(const gemm_spec& s, i64 packets, const tensor& a, const tensor& b, tensor& c) override {
    if (!any_bf16(a, b, c)) return d_->gemm_stacked(s, packets, a, b, c);
    if (!tiles_ || !any_bf16(a, b)) return widened::gemm_stacked(s, packets, a, b, c);
    gemm_spec all = s;  // on tiles, the sums of a row do not depend on the other rows
    all.m *= packets;
    gemm(all, a, b, c);
  }
  void gemm_summed(const gemm_spec& s, i64 packets, const tensor& a, const tensor& b, tensor& c) override {
    any_bf16(a, b, c) ? widened::gemm_summed(s, packets, a, b, c) : d_->gemm_summed(s, packets, a, b, c);
  }

  void axpy(double a, const tensor& x, tensor& y) override {
    if (!any_bf16(x, y)) return d_->axpy(a, x, y);
    each(y.count(), [&](const auto& part) {
      in_f32 w(*this);
      d_->axpy(a, w.in(part(x)), w.in_out(part(y)));
    });
  }
  void scale(double a, tensor& x) override {
    if (!any_bf16(x)) return d_->scale(a, x);
    each(x.count(), [&](const auto& part) {
      in_f32 w(*this);
      d_->scale(a, w.in_out(part(x)));
    });
  }
  void apply(binary op, const tensor& x, const tensor& y, tensor& z) override {
    if (!any_bf16(x, y, z)) return d_->apply(op, x, y, z);
    each(z.count(), [&](const auto& part) {
      in_f32 w(*this);
      d_->apply(op, w.in(part(x)), w.in(part(y)), w.out(part(z)));
    });
  }
  void add_bias(i64 outer, i64 channels, i64 inner, const tensor& bias, tensor& y) override {
    if (!any_bf16(bias, y)) return d_->add_bias(outer, channels, inner, bias, y);
    in_f32 of_bias(*this);
    const tensor b = of_bias.in(bias);
    const i64 row = channels * inner;
    stretches(outer, row, [&](i64 first, i64 count) {
      in_f32 w(*this);
      d_->add_bias(count, channels, inner, b, w.in_out(y.slice(first * row, shape{count * row})));
    });
  }
  void reduce_sum(i64 outer, i64 mid, i64 inner, const tensor& x, tensor& z) override {
    if (!any_bf16(x)) return d_->reduce_sum(outer, mid, inner, x, z);
    assert(x.count() == outer * mid * inner && z.count() == mid);
    in_f32 w(*this);
    k_.reduce_sum(outer, mid, inner, bits(x), w.out(z).mutable_data<float>());
  }
  void blend(i64 outer, i64 mid, i64 inner, const tensor& x, const tensor& a, const tensor& y, const tensor& b, const tensor& shift,
             tensor& z) override {
    if (!any_bf16(x, a, y, b, shift, z)) return d_->blend(outer, mid, inner, x, a, y, b, shift, z);
    in_f32 vectors(*this);
    const tensor wide_a = vectors.in(a), wide_b = vectors.in(b), wide_shift = vectors.in(shift);
    const i64 row = mid * inner;
    stretches(outer, row, [&](i64 first, i64 count) {
      const auto part = [&](const tensor& t) { return t ? t.slice(first * row, shape{count * row}) : t; };
      in_f32 w(*this);
      d_->blend(count, mid, inner, w.in(part(x)), wide_a, w.in(part(y)), wide_b, wide_shift, w.out(part(z)));
    });
  }

  void map(unary f, double parameter, const tensor& x, tensor& y) override {
    if (!any_bf16(x, y)) return d_->map(f, parameter, x, y);
    if (f == unary::relu && parameter == 0.0 && x.type() == y.type()) return k_.relu(y.count(), bits(x), bits(y));
    each(y.count(), [&](const auto& part) {
      in_f32 w(*this);
      d_->map(f, parameter, w.in(part(x)), w.out(part(y)));
    });
  }
  void map_backward(unary f, double parameter, const tensor& x, const tensor& y, const tensor& dy, tensor& dx) override {
    if (!any_bf16(x, y, dy, dx)) return d_->map_backward(f, parameter, x, y, dy, dx);
    if (f == unary::relu && parameter == 0.0 && y.type() == dx.type() && dy.type() == dx.type())
      return k_.relu_backward(dx.count(), bits(y), bits(dy), bits(dx));
    each(dx.count(), [&](const auto& part) {
      in_f32 w(*this);
      const bool of_x = needs_input(f);
      d_->map_backward(f, parameter, of_x ? w.in(part(x)) : tensor(), of_x ? tensor() : w.in(part(y)), w.in(part(dy)),
                       w.out(part(dx)));
    });
  }
  void select_equal(const tensor& x, const tensor& y, const tensor& dy, tensor& dx) override {
    if (!any_bf16(x, y, dy, dx)) return d_->select_equal(x, y, dy, dx);
    each(dx.count(), [&](const auto& part) {
      in_f32 w(*this);
      d_->select_equal(w.in(part(x)), w.in(part(y)), w.in(part(dy)), w.out(part(dx)));
    });
  }

  void conv_forward(const conv_geometry& g, const tensor& x, const tensor& w, const tensor& bias, tensor& y) override {
    any_bf16(x, w, y) ? conv_forward_bf16(*this, tiles_, in_planes(g), x, w, bias, y) : d_->conv_forward(g, x, w, bias, y);
  }
  void conv_backward_data(const conv_geometry& g, const tensor& dy, const tensor& w, tensor& dx) override {
    any_bf16(dy, w, dx) ? conv_backward_data_bf16(*this, tiles_, in_planes(g), dy, w, dx) : d_->conv_backward_data(g, dy, w, dx);
  }
  void conv_backward_weights(const conv_geometry& g, const tensor& x, const tensor& dy, tensor& dw, bool add) override {
    any_bf16(x, dy) ? conv_backward_weights_bf16(*this, tiles_, in_planes(g), x, dy, dw, add)
                    : d_->conv_backward_weights(g, x, dy, dw, add);
  }
  i64 images_at_once(const conv_geometry& g) const override { return d_->images_at_once(g); }
  conv_algorithm algorithm_on(const conv_geometry& g, conv_pass pass) const override { return d_->algorithm_on(g, pass); }
  // bf16 uses the primitives above, which round sums before pooling: the same bits as the separate
  // calls.
  void conv_tail_forward(const conv_geometry& g, const conv_tail& t, const tensor& x, const tensor& w, const tensor& bias,
                         tensor& y, tensor& index) override {
    if (!any_bf16(x, y)) return d_->conv_tail_forward(g, t, x, w, bias, y, index);
    widened::conv_tail_forward(g, t, x, w, bias, y, index);
  }
  void conv_tail_backward(const conv_geometry& g, const conv_tail& t, const tensor& x, const tensor& w, const tensor& y,
                          const tensor& index, const tensor& dy, tensor& dx, tensor& dw, tensor& db) override {
    if (!any_bf16(x, dy)) return d_->conv_tail_backward(g, t, x, w, y, index, dy, dx, dw, db);
    widened::conv_tail_backward(g, t, x, w, y, index, dy, dx, dw, db);
  }

  void max_pool(const pool_geometry& g, const tensor& x, tensor& y, tensor& index) override {
    if (!any_bf16(x, y)) return d_->max_pool(g, x, y, index);
    if (all_bf16(x, y) && k_.max_pool(g, bits(x), bits(y), index.mutable_data<std::int32_t>())) return;
    planes(g, [&](const pool_geometry& some, const auto& inner, const auto& outer) {
      in_f32 w(*this);
      tensor winners = outer(index);
      d_->max_pool(some, w.in(inner(x)), w.out(outer(y)), winners);
    });
  }
  void max_pool_backward(const pool_geometry& g, const tensor& dy, const tensor& index, tensor& dx) override {
    if (!any_bf16(dy, dx)) return d_->max_pool_backward(g, dy, index, dx);
    if (all_bf16(dy, dx) && k_.max_pool_backward(g, bits(dy), index.data<std::int32_t>(), bits(dx))) return;
    planes(g, [&](const pool_geometry& some, const auto& inner, const auto& outer) {
      in_f32 w(*this);
      d_->max_pool_backward(some, w.in(outer(dy)), outer(index), w.out(inner(dx)));
    });
  }
  void avg_pool(const pool_geometry& g, const tensor& x, tensor& y) override {
    if (!any_bf16(x, y)) return d_->avg_pool(g, x, y);
    planes(g, [&](const pool_geometry& some, const auto& inner, const auto& outer) {
      in_f32 w(*this);
      d_->avg_pool(some, w.in(inner(x)), w.out(outer(y)));
    });
  }
  void avg_pool_backward(const pool_geometry& g, const tensor& dy, tensor& dx) override {
    if (!any_bf16(dy, dx)) return d_->avg_pool_backward(g, dy, dx);
    planes(g, [&](const pool_geometry& some, const auto& inner, const auto& outer) {
      in_f32 w(*this);
      d_->avg_pool_backward(some, w.in(outer(dy)), w.out(inner(dx)));
    });
  }
  void lrn(const lrn_geometry& g, const tensor& x, tensor& y, tensor& scale) override {
    if (!any_bf16(x, y, scale)) return d_->lrn(g, x, y, scale);
    if (g.across_channels && all_bf16(x, y, scale)) {
      tensor scratch = lrn_scratch(g);
      return k_.lrn(g, bits(x), bits(y), bits(scale), scratch.mutable_data<float>());
    }
    images(g, [&](const lrn_geometry& one, const auto& part) {
      in_f32 w(*this);
      d_->lrn(one, w.in(part(x)), w.out(part(y)), w.out(part(scale)));
    });
  }
  void lrn_backward(const lrn_geometry& g, const tensor& x, const tensor& scale, const tensor& dy, tensor& dx) override {
    if (!any_bf16(x, scale, dy, dx)) return d_->lrn_backward(g, x, scale, dy, dx);
    if (g.across_channels && all_bf16(x, scale, dy, dx)) {
      tensor scratch = lrn_scratch(g);
      return k_.lrn_backward(g, bits(x), bits(scale), bits(dy), bits(dx), scratch.mutable_data<float>());
    }
    images(g, [&](const lrn_geometry& one, const auto& part) {
      in_f32 w(*this);
      d_->lrn_backward(one, w.in(part(x)), w.in(part(scale)), w.in(part(dy)), w.out(part(dx)));
    });
  }

  void dropout(const rng_stream& s, std::uint64_t first_example, double ratio, const tensor& x, tensor& y) override {
    if (!any_bf16(x, y)) return d_->dropout(s, first_example, ratio, x, y);
    examples(x.dims(), [&](i64 first, const auto& part) {
      in_f32 w(*this);
      d_->dropout(s, first_example + static_cast<std::uint64_t>(first), ratio, w.in(part(x)), w.out(part(y)));
    });
  }
  void sample(draw d, const rng_stream& s, std::uint64_t first_example, const tensor& x, tensor& y) override {
    if (!any_bf16(x, y)) return d_->sample(d, s, first_example, x, y);
    examples(x.dims(), [&](i64 first, const auto& part) {
      in_f32 w(*this);
      d_->sample(d, s, first_example + static_cast<std::uint64_t>(first), w.in(part(x)), w.out(part(y)));
    });
  }

 private:
  tensor lrn_scratch(const lrn_geometry& g) { return tensor::allocate(*this, shape{2 * g.channels * half_strip}, dtype::f32); }

  // Calls f(part): part(t) is the same piece of any tensor of n elements.
  template <class F>
  static void each(i64 n, F f) {
    stretches(n, 1, [&](i64 first, i64 count) { f([=](const tensor& t) { return t.slice(first, shape{count}); }); });
  }
  // The same for whole examples of a tensor like `x`; `first` is the index of the piece's first
  // example.
  template <class F>
  static void examples(const shape& x, F f) {
    const i64 row = x.count_from(1);
    stretches(x[0], row, [&](i64 first, i64 count) {
      f(first, [=](const tensor& t) { return t.slice(first * row, shape{count, row}); });
    });
  }
  // Calls f(geometry of some planes, part of the input, part of the output).
  template <class F>
  static void planes(const pool_geometry& g, F f) {
    const i64 inside = g.height * g.width, outside = g.out_h * g.out_w;
    stretches(g.planes, inside, [&](i64 first, i64 count) {
      pool_geometry some = g;
      some.planes = count;
      const auto part = [=](i64 plane) { return [=](const tensor& t) { return t.slice(first * plane, shape{count * plane}); }; };
      f(some, part(inside), part(outside));
    });
  }
  template <class F>
  static void images(const lrn_geometry& g, F f) {
    const i64 image = g.channels * g.height * g.width;
    stretches(g.batch, image, [&](i64 first, i64 count) {
      lrn_geometry some = g;
      some.batch = count;
      f(some, [=](const tensor& t) { return t.slice(first * image, shape{count * image}); });
    });
  }

  device* d_;
  const half_kernels& k_;
  const amx_kernels* tiles_;
};

}  // namespace

std::unique_ptr<device> with_bf16(std::unique_ptr<device> within, const half_kernels& k, const amx_kernels* tiles) {
  return std::make_unique<bf16_device>(std::move(within), k, tiles);
}

}  // namespace troupe::cpu
