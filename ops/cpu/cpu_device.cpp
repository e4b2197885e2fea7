// The CPU device of f32 and f64 (bf16_device.cpp puts bf16 around it): checks sizes, finds the element type, and calls the kernels of one instruction set, OpenBLAS, or conv.cpp.
#include <cblas-openblas.h>
#include <cassert>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "ops/cpu/bf16_device.hpp"
#include "ops/cpu/block_pool.hpp"
#include "ops/cpu/conv.hpp"
#include "ops/cpu/gemm.hpp"
#include "ops/cpu/int8_rows.hpp"
#include "ops/cpu/kernels.hpp"
#include "ops/cpu/onednn.hpp"
#include "ops/cpu/pool_taps.hpp"

namespace troupe {

namespace cpu {
namespace {

[[noreturn]] void unsupported(const char* what, dtype t) {
  std::fprintf(stderr, "troupe cpu device: %s of %s is not supported\n", what, name_of(t));
  std::abort();
}

const void* optional_data(const tensor& t) { return t ? t.raw() : nullptr; }

class cpu_device final : public device {
 public:
  cpu_device(const kernel_set& set, bool tiles) : set_(set), tiles_(tiles) { openblas_set_num_threads(1); }

  device_kind kind() const override { return device_kind::cpu; }
  std::string name() const override { return "cpu"; }
  std::string numerics_id() const override {
    const auto onednn = onednn_id();
    return std::string("openblas-") + openblas_get_corename() + "/" + set_.isa + "/" + conv_table_id +
           (onednn.empty() ? "" : "/" + onednn);
  }
  std::shared_ptr<storage> allocate(std::size_t bytes) override { return pool_->allocate(bytes); }
  pool_statistics pool() const override { return pool_->statistics(); }
  void upload(const void* host, tensor& t) override { std::memcpy(t.raw_mutable(), host, t.bytes()); }
  void download(const tensor& t, void* host) override { std::memcpy(host, t.raw(), t.bytes()); }

  void fill(double value, tensor& t) override {
    if (t.type() == dtype::i32) {
      for (auto *p = t.mutable_data<std::int32_t>(), *end = p + t.count(); p != end; ++p) *p = static_cast<std::int32_t>(value);
      return;
    }
    run("fill", t, [&](const auto& k, auto v) { k.fill(t.count(), static_cast<decltype(v)>(value), out<decltype(v)>(t)); });
  }
  void copy(const tensor& from, tensor& to) override {
    assert(from.count() == to.count());
    if (from.type() == to.type()) {
      std::memcpy(to.raw_mutable(), from.raw(), from.bytes());
    } else {
      run("conversion", to, [&](const auto&, auto v) { convert(from, out<decltype(v)>(to)); });
    }
  }
  void copy_block(const block& b, const tensor& from, tensor& to) override {
    assert(from.type() == to.type());
    const auto size = static_cast<i64>(size_of(from.type()));
    const auto* source = static_cast<const std::byte*>(from.raw()) + b.from_offset * size;
    auto* target = static_cast<std::byte*>(to.raw_mutable()) + b.to_offset * size;
    for (i64 r = 0; r < b.rows; ++r)
      std::memcpy(target + r * b.to_stride * size, source + r * b.from_stride * size, static_cast<std::size_t>(b.length * size));
  }

  void gather_rows(const tensor& table, const tensor& ids, tensor& z) override {
    const auto v = table.dims()[0], length = table.dims().count_from(1);
    assert(z.count() == ids.count() * length);
    run("gather_rows", z, [&](const auto& k, auto zero) {
      using T = decltype(zero);
      k.gather_rows(ids.count(), v, length, table.data<T>(), ids.data<std::int32_t>(), out<T>(z));
    });
  }
  void scatter_rows(const tensor& x, const tensor& ids, tensor& table) override {
    const auto v = table.dims()[0], length = table.dims().count_from(1);
    assert(x.count() == ids.count() * length);
    run("scatter_rows", table, [&](const auto& k, auto zero) {
      using T = decltype(zero);
      k.scatter_rows(ids.count(), v, length, x.data<T>(), ids.data<std::int32_t>(), out<T>(table));
    });
  }
  void resample(const resample_geometry& g, const tensor& x, tensor& y) override {
    assert(x.count() == g.outer * g.in * g.inner && y.count() == g.outer * g.out * g.inner);
    run("resample", y, [&](const auto& k, auto v) { k.resample(g, x.data<decltype(v)>(), out<decltype(v)>(y)); });
  }
  void resample_backward(const resample_geometry& g, const tensor& dy, tensor& dx) override {
    assert(dx.count() == g.outer * g.in * g.inner && dy.count() == g.outer * g.out * g.inner);
    run("resample", dx, [&](const auto& k, auto v) { k.resample_backward(g, dy.data<decltype(v)>(), out<decltype(v)>(dx)); });
  }

  void gemm(const gemm_spec& s, const tensor& a, const tensor& b, tensor& c) override;

  tensor pack(const gemm_spec& s, const tensor& b) override;
  void gemm_packed(const gemm_spec& s, const tensor& a, const tensor& packed, tensor& c) override;
  void gemm_stacked(const gemm_spec& s, i64 packets, const tensor& a, const tensor& b, tensor& c) override;
  void gemm_summed(const gemm_spec& s, i64 packets, const tensor& a, const tensor& b, tensor& c) override;

  void axpy(double a, const tensor& x, tensor& y) override {
    assert(x.count() == y.count());
    run("axpy", y, [&](const auto& k, auto v) {
      using T = decltype(v);
      k.axpy(y.count(), static_cast<T>(a), x.data<T>(), out<T>(y));
    });
  }
  void scale(double a, tensor& x) override {
    run("scale", x, [&](const auto& k, auto v) { k.scale(x.count(), static_cast<decltype(v)>(a), out<decltype(v)>(x)); });
  }
  void apply(binary op, const tensor& x, const tensor& y, tensor& z) override {
    assert(x.count() == z.count() && y.count() == z.count());
    run("apply", z, [&](const auto& k, auto v) {
      using T = decltype(v);
      k.apply(static_cast<int>(op), z.count(), x.data<T>(), y.data<T>(), out<T>(z));
    });
  }
  void add_bias(i64 outer, i64 channels, i64 inner, const tensor& bias, tensor& y) override {
    assert(y.count() == outer * channels * inner && bias.count() == channels);
    run("add_bias", y, [&](const auto& k, auto v) {
      using T = decltype(v);
      k.add_bias(outer, channels, inner, bias.data<T>(), out<T>(y));
    });
  }
  void reduce_sum(i64 outer, i64 mid, i64 inner, const tensor& x, tensor& z) override {
    assert(x.count() == outer * mid * inner && z.count() == mid);
    run("reduce_sum", z, [&](const auto& k, auto v) {
      using T = decltype(v);
      k.reduce_sum(outer, mid, inner, x.data<T>(), out<T>(z));
    });
  }
  void reduce_product(i64 outer, i64 mid, i64 inner, const tensor& x, const tensor& y, tensor& z) override {
    assert(x.count() == outer * mid * inner && y.count() == x.count() && z.count() == mid);
    run("reduce_product", z, [&](const auto& k, auto v) {
      using T = decltype(v);
      k.reduce_product(outer, mid, inner, x.data<T>(), y.data<T>(), out<T>(z));
    });
  }
  void moments(i64 outer, i64 mid, i64 inner, const tensor& x, tensor& mean, tensor& variance) override {
    assert(x.count() == outer * mid * inner && mean.count() == mid && variance.count() == mid);
    run("moments", mean, [&](const auto& k, auto v) {
      using T = decltype(v);
      k.moments(outer, mid, inner, x.data<T>(), out<T>(mean), out<T>(variance));
    });
  }
  void blend(i64 outer, i64 mid, i64 inner, const tensor& x, const tensor& a, const tensor& y, const tensor& b, const tensor& shift,
             tensor& z) override {
    assert(x.count() == outer * mid * inner && z.count() == x.count() && (!y || y.count() == x.count()));
    run("blend", z, [&](const auto& k, auto v) {
      using T = decltype(v);
      const auto optional = [](const tensor& t) { return t ? t.data<T>() : nullptr; };
      k.blend(outer, mid, inner, x.data<T>(), optional(a), optional(y), optional(b), optional(shift), out<T>(z));
    });
  }
  void sum_squares(const tensor& x, tensor& sum) override {
    run("sum_squares", x,
        [&](const auto& k, auto v) { *sum.mutable_data<double>() = k.sum_squares(x.count(), x.data<decltype(v)>()); });
  }

  void map(unary f, double parameter, const tensor& x, tensor& y) override {
    assert(x.count() == y.count());
    run("map", y, [&](const auto& k, auto v) {
      using T = decltype(v);
      k.map(static_cast<int>(f), static_cast<T>(parameter), y.count(), x.data<T>(), out<T>(y));
    });
  }
  void map_backward(unary f, double parameter, const tensor& x, const tensor& y, const tensor& dy, tensor& dx) override {
    assert(dy.count() == dx.count() && (needs_input(f) ? x : y).count() == dx.count());
    run("map_backward", dx, [&](const auto& k, auto v) {
      using T = decltype(v);
      k.map_backward(static_cast<int>(f), static_cast<T>(parameter), dx.count(), static_cast<const T*>(optional_data(x)),
                     static_cast<const T*>(optional_data(y)), dy.data<T>(), out<T>(dx));
    });
  }
  void select_equal(const tensor& x, const tensor& y, const tensor& dy, tensor& dx) override {
    run("select_equal", dx, [&](const auto& k, auto v) {
      using T = decltype(v);
      k.select_equal(dx.count(), x.data<T>(), y.data<T>(), dy.data<T>(), out<T>(dx));
    });
  }

  void im2col(const conv_geometry& g, i64 image, i64 group, const tensor& x, tensor& col) override;
  void col2im(const conv_geometry& g, i64 image, i64 group, const tensor& col, tensor& dx) override;
  void conv_forward(const conv_geometry& g, const tensor& x, const tensor& w, const tensor& bias, tensor& y) override {
    run("conv", y, [&](const auto& k, auto v) {
      using T = decltype(v);
      passes_of<T>(g, conv_pass::forward, level())
          .forward(*this, k, g, x.data<T>(), w.data<T>(), static_cast<const T*>(optional_data(bias)), out<T>(y));
    });
  }
  void conv_backward_data(const conv_geometry& g, const tensor& dy, const tensor& w, tensor& dx) override {
    run("conv", dx, [&](const auto& k, auto v) {
      using T = decltype(v);
      passes_of<T>(g, conv_pass::backward_data, level()).backward_data(*this, k, g, dy.data<T>(), w.data<T>(), out<T>(dx));
    });
  }
  void conv_backward_weights(const conv_geometry& g, const tensor& x, const tensor& dy, tensor& dw, bool add) override {
    run("conv", dw, [&](const auto& k, auto v) {
      using T = decltype(v);
      passes_of<T>(g, conv_pass::backward_weights, level())
          .backward_weights(*this, k, g, x.data<T>(), dy.data<T>(), out<T>(dw), add);
    });
  }
  void conv_backward_parameters(const conv_geometry& g, const tensor& x, const tensor& dy, tensor& dw, tensor& db,
                                bool add) override;
  i64 images_at_once(const conv_geometry& g) const override { return cpu::images_at_once(g, level()); }
  conv_algorithm algorithm_on(const conv_geometry& g, conv_pass pass) const override {
    const auto a = algorithm_of(g, pass);
    return a == conv_algorithm::automatic ? automatic_choice(g, pass, level()) : a;
  }
  void to_int8(const tensor& x, tensor& bytes) override {
    x.type() == dtype::f64 ? rows_to_int8<double>(x, bytes) : rows_to_int8<float>(x, bytes);
  }
  void from_int8(const tensor& bytes, tensor& x) override {
    x.type() == dtype::f64 ? rows_from_int8<double>(bytes, x) : rows_from_int8<float>(bytes, x);
  }
  void conv_tail_forward(const conv_geometry& g, const conv_tail& t, const tensor& x, const tensor& w, const tensor& bias,
                         tensor& y, tensor& index) override;
  void conv_tail_backward(const conv_geometry& g, const conv_tail& t, const tensor& x, const tensor& w, const tensor& y,
                          const tensor& index, const tensor& dy, tensor& dx, tensor& dw, tensor& db) override;

  void cell_forward(const cell_spec& s, const tensor& bias, tensor& gates, const tensor& h_before, const tensor& c_before,
                    tensor& c, tensor& h, tensor& y) override {
    run("cell", gates, [&](const auto& k, auto v) {
      using T = decltype(v);
      k.cell_forward(s, bias.data<T>(), out<T>(gates), h_before.data<T>(), static_cast<const T*>(optional_data(c_before)),
                     c ? out<T>(c) : nullptr, out<T>(h), out<T>(y));
    });
  }
  void cell_backward(const cell_spec& s, const tensor& gates, const tensor& h_before, const tensor& h, const tensor& c_before,
                     const tensor& c, const tensor& dy, tensor& dh, tensor& dc, tensor& dgates) override {
    run("cell", dgates, [&](const auto& k, auto v) {
      using T = decltype(v);
      k.cell_backward(s, static_cast<const T*>(optional_data(gates)), h_before.data<T>(), h.data<T>(),
                      static_cast<const T*>(optional_data(c_before)), static_cast<const T*>(optional_data(c)), dy.data<T>(),
                      out<T>(dh), dc ? out<T>(dc) : nullptr, out<T>(dgates));
    });
  }

  void max_pool(const pool_geometry& g, const tensor& x, tensor& y, tensor& index) override;
  void max_pool_backward(const pool_geometry& g, const tensor& dy, const tensor& index, tensor& dx) override {
    run("max_pool", dx, [&](const auto& k, auto v) {
      using T = decltype(v);
      k.max_pool_backward(g, dy.data<T>(), index.data<std::int32_t>(), out<T>(dx));
    });
  }
  void avg_pool(const pool_geometry& g, const tensor& x, tensor& y) override;
  void avg_pool_backward(const pool_geometry& g, const tensor& dy, tensor& dx) override;
  void lrn(const lrn_geometry& g, const tensor& x, tensor& y, tensor& scale) override {
    run("lrn", y, [&](const auto& k, auto v) {
      using T = decltype(v);
      tensor s = lrn_scratch(g, y.type());
      k.lrn(g, x.data<T>(), out<T>(y), out<T>(scale), out<T>(s));
    });
  }
  void lrn_backward(const lrn_geometry& g, const tensor& x, const tensor& scale, const tensor& dy, tensor& dx) override {
    run("lrn", dx, [&](const auto& k, auto v) {
      using T = decltype(v);
      tensor s = lrn_scratch(g, dx.type());
      k.lrn_backward(g, x.data<T>(), scale.data<T>(), dy.data<T>(), out<T>(dx), out<T>(s));
    });
  }

  void norm_forward(const norm_geometry& g, const tensor& x, const tensor& w, const tensor& b, tensor& variance, tensor& table,
                    tensor& y) override {
    assert(x.count() == g.outer * g.mid * g.inner && y.count() == x.count());
    run("norm", y, [&](const auto& k, auto v) {
      using T = decltype(v);
      k.norm_forward(g, x.data<T>(), static_cast<const T*>(optional_data(w)), static_cast<const T*>(optional_data(b)),
                     out<T>(variance), out<T>(table), out<T>(y));
    });
  }
  void norm_table(const norm_geometry& g, const tensor& mean, const tensor& variance, const tensor& w, const tensor& b,
                  tensor& table) override {
    assert(mean.count() == g.mid && variance.count() == g.mid && table.count() == 4 * g.mid);
    run("norm", table, [&](const auto& k, auto v) {
      using T = decltype(v);
      k.norm_table(g, mean.data<T>(), variance.data<T>(), static_cast<const T*>(optional_data(w)),
                   static_cast<const T*>(optional_data(b)), out<T>(table));
    });
  }
  void norm_apply(const norm_geometry& g, const tensor& x, const tensor& table, tensor& y) override {
    assert(x.count() == g.outer * g.mid * g.inner && y.count() == x.count());
    run("norm", y, [&](const auto& k, auto v) {
      using T = decltype(v);
      k.norm_apply(g, x.data<T>(), table.data<T>(), out<T>(y));
    });
  }
  void norm_sums(const norm_geometry& g, const tensor& x, const tensor& table, const tensor& dy, tensor& sums) override {
    assert(x.count() == g.outer * g.mid * g.inner && dy.count() == x.count() && sums.count() == 2 * g.mid);
    run("norm", sums, [&](const auto& k, auto v) {
      using T = decltype(v);
      k.norm_sums(g, x.data<T>(), table.data<T>(), dy.data<T>(), out<T>(sums));
    });
  }
  void norm_slope(const norm_geometry& g, const tensor& x, const tensor& table, const tensor& sums, double count, const tensor& dy,
                  tensor& dx) override {
    assert(dx.count() == g.outer * g.mid * g.inner && x.count() == dx.count() && dy.count() == dx.count());
    run("norm", dx, [&](const auto& k, auto v) {
      using T = decltype(v);
      tensor spare = tensor::allocate(*this, shape{2 * g.mid}, dx.type());
      k.norm_slope(g, x.data<T>(), table.data<T>(), sums.data<T>(), count, dy.data<T>(), out<T>(dx), out<T>(spare));
    });
  }
  void norm_backward(const norm_geometry& g, const tensor& x, const tensor& table, const tensor& dy, tensor& sums,
                     tensor& dx) override {
    assert(dx.count() == g.outer * g.mid * g.inner && x.count() == dx.count() && dy.count() == dx.count());
    run("norm", dx, [&](const auto& k, auto v) {
      using T = decltype(v);
      tensor spare = tensor::allocate(*this, shape{2 * g.mid}, dx.type());
      k.norm_backward(g, x.data<T>(), table.data<T>(), dy.data<T>(), out<T>(sums), out<T>(dx), out<T>(spare));
    });
  }

  void softmax_loss(const tensor& x, const tensor& labels, tensor& probability, tensor& loss) override {
    run("softmax_loss", x, [&](const auto& k, auto v) {
      using T = decltype(v);
      *out<T>(loss) = static_cast<T>(
          k.softmax_loss(x.dims()[0], x.dims().count_from(1), x.data<T>(), labels.data<std::int32_t>(), out<T>(probability)));
    });
  }
  void softmax_loss_backward(const tensor& probability, const tensor& labels, const tensor& dloss, tensor& dx) override {
    run("softmax_loss", dx, [&](const auto& k, auto v) {
      using T = decltype(v);
      k.softmax_loss_backward(probability.dims()[0], probability.dims().count_from(1), *dloss.data<T>(), probability.data<T>(),
                              labels.data<std::int32_t>(), out<T>(dx));
    });
  }
  void softmax(i64 outer, i64 classes, i64 inner, const tensor& x, tensor& y) override {
    assert(x.count() == outer * classes * inner && y.count() == x.count());
    run("softmax", y, [&](const auto& k, auto v) { k.softmax(outer, classes, inner, x.data<decltype(v)>(), out<decltype(v)>(y)); });
  }
  void softmax_backward(i64 outer, i64 classes, i64 inner, const tensor& y, const tensor& dy, tensor& dx) override {
    assert(y.count() == outer * classes * inner && dy.count() == y.count() && dx.count() == y.count());
    run("softmax", dx, [&](const auto& k, auto v) {
      using T = decltype(v);
      k.softmax_backward(outer, classes, inner, y.data<T>(), dy.data<T>(), out<T>(dx));
    });
  }
  void pointwise_loss(pointwise f, const tensor& x, const tensor& targets, tensor& slope, tensor& loss) override {
    const bool labels = targets.type() == dtype::i32;
    const i64 rows = x.dims()[0];
    assert(slope.count() == x.count() && targets.count() == (labels ? rows : x.count()));
    run("pointwise_loss", x, [&](const auto& k, auto v) {
      using T = decltype(v);
      *out<T>(loss) = static_cast<T>(k.pointwise_loss(static_cast<int>(f), rows, x.dims().count_from(1), x.data<T>(),
                                                      labels ? nullptr : targets.data<T>(),
                                                      labels ? targets.data<std::int32_t>() : nullptr, out<T>(slope)));
    });
  }
  void top_k(i64 count, const tensor& x, const tensor& labels, tensor& z) override {
    run("top_k", x, [&](const auto& k, auto v) {
      using T = decltype(v);
      *out<T>(z) = static_cast<T>(k.top_k(count, x.dims()[0], x.dims().count_from(1), x.data<T>(), labels.data<std::int32_t>()));
    });
  }

  void dropout(const rng_stream& s, std::uint64_t first_example, double ratio, const tensor& x, tensor& y) override {
    assert(ratio >= 0 && ratio < 1);
    run("dropout", y, [&](const auto& k, auto v) {
      using T = decltype(v);
      k.dropout(s, first_example, ratio, x.dims()[0], x.dims().count_from(1), x.data<T>(), out<T>(y));
    });
  }
  void sample(draw d, const rng_stream& s, std::uint64_t first_example, const tensor& x, tensor& y) override {
    assert(x.count() == y.count());
    run("sample", y, [&](const auto& k, auto v) {
      using T = decltype(v);
      k.sample(d == draw::gaussian, s, first_example, x.dims()[0], x.dims().count_from(1), x.data<T>(), out<T>(y));
    });
  }
  void fill_uniform(const rng_stream& s, double low, double high, tensor& t) override {
    run("fill_uniform", t, [&](const auto& k, auto v) { k.fill_uniform(s, low, high, t.count(), out<decltype(v)>(t)); });
  }
  void fill_gaussian(const rng_stream& s, double mean, double deviation, tensor& t) override {
    run("fill_gaussian", t, [&](const auto& k, auto v) { k.fill_gaussian(s, mean, deviation, t.count(), out<decltype(v)>(t)); });
  }
  void sgd_update(const sgd_spec& s, const tensor& w, const tensor& g, const tensor& v, tensor& w_out, tensor& v_out) override {
    assert(w.count() == g.count() && w.count() == w_out.count());
    run("sgd_update", w_out, [&](const auto& k, auto zero) {
      using T = decltype(zero);
      k.sgd(s, w.count(), w.data<T>(), g.data<T>(), static_cast<const T*>(optional_data(v)), out<T>(w_out),
            v_out ? out<T>(v_out) : nullptr);
    });
  }
  void adaptive_update(const adaptive_spec& s, const tensor& w, const tensor& g, const tensors& states, tensor& w_out,
                       tensors& states_out) override {
    constexpr std::size_t most = 3;
    assert(w.count() == g.count() && w.count() == w_out.count() && states.size() == states_out.size() && states.size() <= most);
    run("adaptive_update", w_out, [&](const auto& k, auto zero) {
      using T = decltype(zero);
      const T* from[most] = {};
      T* to[most] = {};
      for (std::size_t i = 0; i < states.size(); ++i) {
        assert(states[i].count() == w.count() && states_out[i].count() == w.count());
        from[i] = states[i].data<T>();
        to[i] = out<T>(states_out[i]);
      }
      k.adaptive(s, w.count(), w.data<T>(), g.data<T>(), from, out<T>(w_out), to);
    });
  }

  bool wide() const { return set_.f32.tile_rows == 14; }
  cpu_level level() const { return tiles_ ? cpu_level::tiles : wide() ? cpu_level::wide : cpu_level::basic; }

 private:
  template <class T>
  static T* out(tensor& t) {
    return t.mutable_data<T>();
  }

  // Calls f(kernels of t's type, a zero of that type).
  template <class F>
  void run(const char* what, const tensor& t, F f) {
    if (t.type() == dtype::f32)
      f(set_.f32, 0.0F);
    else if (t.type() == dtype::f64)
      f(set_.f64, 0.0);
    else
      unsupported(what, t.type());
  }

  template <class T>
  static void convert(const tensor& from, T* to) {
    auto cast = [&](const auto* p) {
      for (i64 i = 0; i < from.count(); ++i) to[i] = static_cast<T>(p[i]);
    };
    switch (from.type()) {
      case dtype::f32: return cast(from.data<float>());
      case dtype::f64: return cast(from.data<double>());
      case dtype::i32: return cast(from.data<std::int32_t>());
      case dtype::u8: return cast(from.data<std::uint8_t>());
      case dtype::bf16: unsupported("conversion", from.type());
    }
  }

  tensor lrn_scratch(const lrn_geometry& g, dtype t) {
    const i64 inner = g.height * g.width, padded = (g.height + g.size) * (g.width + g.size) + 2 * g.size;
    return tensor::allocate(*this, shape{g.channels * inner + inner + 2 * padded}, t);
  }

  const kernel_set& set_;
  const bool tiles_;
  std::shared_ptr<block_pool> pool_ = std::make_shared<block_pool>();
};

void cpu_device::gemm(const gemm_spec& s, const tensor& a, const tensor& b, tensor& c) {
  if (c.type() == dtype::f32 && is_thin(s, wide()))
    return thin_gemm(*this, set_.f32, s, a.data<float>(), b.data<float>(), out<float>(c));
  blas_gemm(s, a, b, c);
}

tensor cpu_device::pack(const gemm_spec& s, const tensor& b) {
  tensor packed;
  run("pack", b, [&](const auto& k, auto v) {
    using T = decltype(v);
    const i64 columns = (s.n + k.panel_width - 1) / k.panel_width * k.panel_width;
    packed = tensor::allocate(*this, shape{s.k * columns + k.slack}, b.type());
    k.pack_panels(s.transpose_b, s.k, s.n, b.data<T>(), s.ldb ? s.ldb : (s.transpose_b ? s.k : s.n), out<T>(packed));
  });
  return packed;
}

void cpu_device::gemm_packed(const gemm_spec& s, const tensor& a, const tensor& packed, tensor& c) {
  assert(s.alpha == 1.0 && (s.beta == 0.0 || s.beta == 1.0));
  run("gemm_packed", c, [&](const auto& k, auto v) {
    using T = decltype(v);
    tensor scratch = tensor::allocate(*this, shape{k.product_scratch}, c.type());
    k.product(s.transpose_a, s.m, s.n, s.k, a.data<T>(), s.lda ? s.lda : (s.transpose_a ? s.m : s.k), packed.data<T>(), out<T>(c),
              s.ldc ? s.ldc : s.n, s.beta != 0.0, out<T>(scratch));
  });
}

// Thin products by the kernel that the packets alone would have (is_thin asks one of them), with b read once.
void cpu_device::gemm_stacked(const gemm_spec& s, i64 packets, const tensor& a, const tensor& b, tensor& c) {
  if (packets == 1) return gemm(s, a, b, c);
  gemm_spec all = s;
  all.m *= packets;
  if (c.type() != dtype::f32 || !is_thin(s, wide()) || !offsets_fit(all)) return device::gemm_stacked(s, packets, a, b, c);
  thin_gemm(*this, set_.f32, all, a.data<float>(), b.data<float>(), out<float>(c));
}

// Likewise, with c written once.
void cpu_device::gemm_summed(const gemm_spec& s, i64 packets, const tensor& a, const tensor& b, tensor& c) {
  if (packets == 1) return gemm(s, a, b, c);
  gemm_spec all = s;
  all.k *= packets;
  if (c.type() != dtype::f32 || !is_thin(s, wide()) || !offsets_fit(all)) return device::gemm_summed(s, packets, a, b, c);
  thin_gemm_summed(*this, set_.f32, s, packets, a.data<float>(), b.data<float>(), out<float>(c));
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

// oneDNN makes both gradients at once, from dy as it likes to read it.
void cpu_device::conv_backward_parameters(const conv_geometry& g, const tensor& x, const tensor& dy, tensor& dw, tensor& db,
                                          bool add) {
  if (dy.type() != dtype::f32 || !db.backed() || algorithm_of(g, conv_pass::backward_weights) != conv_algorithm::onednn)
    return device::conv_backward_parameters(g, x, dy, dw, db, add);
  tensor to = dw.backed() ? dw : tensor::allocate(*this, shape{g.outputs * g.patch()}, dy.type());
  conv_onednn_parameters(*this, set_.f32, g, x.data<float>(), dy.data<float>(), out<float>(to), out<float>(db), add);
}

// Calls f(row of the column matrix, output pixel, element of the plane) for the elements that lie inside the image, and
// outside(row, output pixel) for the padding.
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

void cpu_device::max_pool(const pool_geometry& g, const tensor& x, tensor& y, tensor& index) {
  run("max_pool", y, [&](const auto& k, auto v) {
    using T = decltype(v);
    const i64 row = std::max(g.pad_w + g.width, (g.out_w - 1) * g.stride_w + g.kernel_w);
    tensor scratch = tensor::allocate(*this, shape{2 * (row + k.slack * (g.stride_w + 2))}, y.type());
    k.max_pool(g, x.data<T>(), out<T>(y), out<std::int32_t>(index), out<T>(scratch));
  });
}

void cpu_device::avg_pool(const pool_geometry& g, const tensor& x, tensor& y) {
  run("avg_pool", y, [&](const auto& k, auto v) {
    using T = decltype(v);
    tensor scratch = tensor::allocate(*this, shape{g.width + g.out_w}, y.type());
    k.avg_pool(g, tap_ranges(g).data(), column_extents<T>(g).data(), x.data<T>(), out<T>(y), out<T>(scratch));
  });
}

void cpu_device::avg_pool_backward(const pool_geometry& g, const tensor& dy, tensor& dx) {
  run("avg_pool", dx, [&](const auto& k, auto v) {
    using T = decltype(v);
    tensor scratch = tensor::allocate(*this, shape{g.width + g.out_w}, dx.type());
    k.avg_pool_backward(g, tap_ranges(g).data(), column_extents<T>(g).data(), dy.data<T>(), out<T>(dx), out<T>(scratch));
  });
}

}  // namespace
}  // namespace cpu

std::unique_ptr<device> make_cpu_device(const std::string& isa) {
  const auto make = [](const cpu::kernel_set& set, const cpu::amx_kernels* tiles) {
    return cpu::with_bf16(std::make_unique<cpu::cpu_device>(set, tiles != nullptr), set.bf16, tiles);
  };
  if (cpu::kernels_v4() && cpu::amx() && (isa.empty() || isa == "x86-64-v4-amx")) return make(*cpu::kernels_v4(), cpu::amx());
  for (const cpu::kernel_set* set : {cpu::kernels_v4(), cpu::kernels_v3(), cpu::kernels_baseline()})
    if (set != nullptr && (isa.empty() || isa == set->isa)) return make(*set, nullptr);
  return nullptr;
}

}  // namespace troupe
