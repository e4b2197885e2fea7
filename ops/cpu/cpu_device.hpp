// The CPU device for f32 and f64 (bf16_device.cpp adds bf16). Checks sizes, selects the element
// type, and calls the kernels of one instruction set, OpenBLAS, or conv.cpp. Memory and copies are
// in cpu_device.cpp, the primitives in device_*.cpp.
#pragma once

#include <cassert>
#include <cstring>
#include <memory>
#include <string>

#include "ops/cpu/block_pool.hpp"
#include "ops/cpu/conv_rule.hpp"
#include "ops/cpu/kernels.hpp"
#include "ops/device.hpp"

namespace troupe::cpu {

[[noreturn]] void unsupported(const char* what, dtype t);

inline const void* optional_data(const tensor& t) { return t ? t.raw() : nullptr; }

class cpu_device final : public device {
 public:
  cpu_device(const kernel_set& set, bool tiles);

  device_kind kind() const override { return device_kind::cpu; }
  std::string name() const override { return "cpu"; }
  std::string numerics_id() const override;
  std::shared_ptr<storage> allocate(std::size_t bytes) override { return pool_->allocate(bytes); }
  pool_statistics pool() const override { return pool_->statistics(); }
  void upload(const void* host, tensor& t) override { std::memcpy(t.raw_mutable(), host, t.bytes()); }
  void download(const tensor& t, void* host) override { std::memcpy(host, t.raw(), t.bytes()); }

  void fill(double value, tensor& t) override;
  void copy(const tensor& from, tensor& to) override;
  void copy_block(const block& b, const tensor& from, tensor& to) override;

  void gather_rows(const tensor& table, const tensor& ids, tensor& z) override;
  void scatter_rows(const tensor& x, const tensor& ids, tensor& table) override;
  void resample(const resample_geometry& g, const tensor& x, tensor& y) override;
  void resample_backward(const resample_geometry& g, const tensor& dy, tensor& dx) override;

  void gemm(const gemm_spec& s, const tensor& a, const tensor& b, tensor& c) override;

  tensor pack(const gemm_spec& s, const tensor& b) override;
  void gemm_packed(const gemm_spec& s, const tensor& a, const tensor& packed, tensor& c) override;
  void gemm_stacked(const gemm_spec& s, i64 packets, const tensor& a, const tensor& b, tensor& c) override;
  void gemm_summed(const gemm_spec& s, i64 packets, const tensor& a, const tensor& b, tensor& c) override;

  void axpy(double a, const tensor& x, tensor& y) override;
  void scale(double a, tensor& x) override;
  void apply(binary op, const tensor& x, const tensor& y, tensor& z) override;
  void add_bias(i64 outer, i64 channels, i64 inner, const tensor& bias, tensor& y) override;
  void reduce_sum(i64 outer, i64 mid, i64 inner, const tensor& x, tensor& z) override;
  void reduce_product(i64 outer, i64 mid, i64 inner, const tensor& x, const tensor& y, tensor& z) override;
  void moments(i64 outer, i64 mid, i64 inner, const tensor& x, tensor& mean, tensor& variance) override;
  void blend(i64 outer, i64 mid, i64 inner, const tensor& x, const tensor& a, const tensor& y, const tensor& b, const tensor& shift,
             tensor& z) override;
  void sum_squares(const tensor& x, tensor& sum) override;

  void map(unary f, double parameter, const tensor& x, tensor& y) override;
  void map_backward(unary f, double parameter, const tensor& x, const tensor& y, const tensor& dy, tensor& dx) override;
  void select_equal(const tensor& x, const tensor& y, const tensor& dy, tensor& dx) override;

  void im2col(const conv_geometry& g, i64 image, i64 group, const tensor& x, tensor& col) override;
  void col2im(const conv_geometry& g, i64 image, i64 group, const tensor& col, tensor& dx) override;
  void conv_forward(const conv_geometry& g, const tensor& x, const tensor& w, const tensor& bias, tensor& y) override;
  void conv_backward_data(const conv_geometry& g, const tensor& dy, const tensor& w, tensor& dx) override;
  void conv_backward_weights(const conv_geometry& g, const tensor& x, const tensor& dy, tensor& dw, bool add) override;
  void conv_backward_parameters(const conv_geometry& g, const tensor& x, const tensor& dy, tensor& dw, tensor& db,
                                bool add) override;
  i64 images_at_once(const conv_geometry& g) const override;
  conv_algorithm algorithm_on(const conv_geometry& g, conv_pass pass) const override;
  void to_int8(const tensor& x, tensor& bytes) override;
  void from_int8(const tensor& bytes, tensor& x) override;
  void conv_tail_forward(const conv_geometry& g, const conv_tail& t, const tensor& x, const tensor& w, const tensor& bias,
                         tensor& y, tensor& index) override;
  void conv_tail_backward(const conv_geometry& g, const conv_tail& t, const tensor& x, const tensor& w, const tensor& y,
                          const tensor& index, const tensor& dy, tensor& dx, tensor& dw, tensor& db) override;

  void cell_forward(const cell_spec& s, const tensor& bias, tensor& gates, const tensor& h_before, const tensor& c_before,
                    tensor& c, tensor& h, tensor& y) override;
  void cell_backward(const cell_spec& s, const tensor& gates, const tensor& h_before, const tensor& h, const tensor& c_before,
                     const tensor& c, const tensor& dy, tensor& dh, tensor& dc, tensor& dgates) override;

  void max_pool(const pool_geometry& g, const tensor& x, tensor& y, tensor& index) override;
  void max_pool_backward(const pool_geometry& g, const tensor& dy, const tensor& index, tensor& dx) override;
  void avg_pool(const pool_geometry& g, const tensor& x, tensor& y) override;
  void avg_pool_backward(const pool_geometry& g, const tensor& dy, tensor& dx) override;
  void lrn(const lrn_geometry& g, const tensor& x, tensor& y, tensor& scale) override;
  void lrn_backward(const lrn_geometry& g, const tensor& x, const tensor& scale, const tensor& dy, tensor& dx) override;

  void norm_forward(const norm_geometry& g, const tensor& x, const tensor& w, const tensor& b, tensor& variance, tensor& table,
                    tensor& y) override;
  void norm_table(const norm_geometry& g, const tensor& mean, const tensor& variance, const tensor& w, const tensor& b,
                  tensor& table) override;
  void norm_apply(const norm_geometry& g, const tensor& x, const tensor& table, tensor& y) override;
  void norm_sums(const norm_geometry& g, const tensor& x, const tensor& table, const tensor& dy, tensor& sums) override;
  void norm_slope(const norm_geometry& g, const tensor& x, const tensor& table, const tensor& sums, double count, const tensor& dy,
                  tensor& dx) override;
  void norm_backward(const norm_geometry& g, const tensor& x, const tensor& table, const tensor& dy, tensor& sums,
                     tensor& dx) override;

  void softmax_loss(double smoothing, const tensor& weights, const tensor& x, const tensor& labels, tensor& probability,
                    tensor& loss) override;
  void softmax_loss_backward(double smoothing, const tensor& weights, const tensor& probability, const tensor& labels,
                             const tensor& dloss, tensor& dx) override;
  void softmax(i64 outer, i64 classes, i64 inner, const tensor& x, tensor& y) override;
  void softmax_backward(i64 outer, i64 classes, i64 inner, const tensor& y, const tensor& dy, tensor& dx) override;
  void pointwise_loss(pointwise f, const tensor& x, const tensor& targets, tensor& slope, tensor& loss) override;
  void top_k(i64 count, const tensor& x, const tensor& labels, tensor& z) override;

  void dropout(const rng_stream& s, std::uint64_t first_example, double ratio, const tensor& x, tensor& y) override;
  void sample(draw d, const rng_stream& s, std::uint64_t first_example, const tensor& x, tensor& y) override;
  void fill_uniform(const rng_stream& s, double low, double high, tensor& t) override;
  void fill_gaussian(const rng_stream& s, double mean, double deviation, tensor& t) override;
  void sgd_update(const sgd_spec& s, const tensor& w, const tensor& g, const tensor& v, tensor& w_out, tensor& v_out) override;
  void adaptive_update(const adaptive_spec& s, const tensor& w, const tensor& g, const tensors& states, tensor& w_out,
                       tensors& states_out) override;

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

  tensor lrn_scratch(const lrn_geometry& g, dtype t);

  const kernel_set& set_;
  const bool tiles_;
  std::shared_ptr<block_pool> pool_ = std::make_shared<block_pool>();
};

}  // namespace troupe::cpu
