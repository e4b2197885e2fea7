// Adds bf16 tensors to a device of f32 and f64, for every primitive: inputs are widened for the
// call, and each bf16 output is rounded once after it. Generated from the list of primitives.
// ops/cpu/bf16_device.cpp and ops/cuda/bf16_stream.cpp override some of them.
#pragma once

#include <array>
#include <memory>
#include <string_view>
#include <type_traits>
#include <utility>

#include "ops/device.hpp"

namespace troupe {

template <class... Tensor>
bool any_bf16(const Tensor&... t) {
  return ((t && t.type() == dtype::bf16) || ...);
}

// The converted tensors of one call of a primitive.
class in_f32 {
 public:
  explicit in_f32(device& d) : d_(d) {}
  in_f32(const in_f32&) = delete;
  in_f32& operator=(const in_f32&) = delete;
  ~in_f32() {
    for (std::size_t i = 0; i < count_; ++i)
      if (auto& w = written_[i]; w.to) d_.copy(w.wide, w.to);
  }
  tensor in(const tensor& t) const {
    if (!any_bf16(t)) return t;
    tensor wide = tensor::allocate(d_, t.dims(), dtype::f32);
    d_.copy(t, wide);
    return wide;
  }
  tensor& out(const tensor& t) { return write(t, any_bf16(t) ? tensor::allocate(d_, t.dims(), dtype::f32) : t); }
  tensor& in_out(const tensor& t) { return write(t, in(t)); }

 private:
  struct written {
    tensor to, wide;
  };
  tensor& write(const tensor& t, tensor wide) {
    auto& w = written_[count_++];
    if (any_bf16(t)) w.to = t;
    w.wide = std::move(wide);
    return w.wide;
  }

  device& d_;
  std::array<written, 4> written_;
  std::size_t count_ = 0;
};

class widened_primitives : public device {
 public:
  explicit widened_primitives(std::unique_ptr<device> within) : d_(std::move(within)) {}

#define TROUPE_PRIMITIVE(name, parameters, names, adds) \
  void name parameters override { call(&device::name, adds, TROUPE_NAMES names); }
#define TROUPE_NAMES(...) __VA_ARGS__
#include "ops/primitives.inl"
#undef TROUPE_NAMES
#undef TROUPE_PRIMITIVE

 protected:
  device& within() const { return *d_; }

 private:
  template <class... P, class... A>
  void call(void (device::*primitive)(P...), bool adds, A&... arguments) {
    in_f32 w(*this);
    ((*d_).*primitive)(one<P>(w, adds, arguments)...);
  }
  // Converts an argument by the type of the primitive's parameter: const tensor& is read, tensor&
  // is written, other types (including lists of states) are passed on unchanged.
  template <class P, class A>
  static decltype(auto) one(in_f32& w, bool adds, A& a) {
    if constexpr (std::is_same_v<P, const tensor&>)
      return w.in(a);
    else if constexpr (std::is_same_v<P, tensor&>)
      return adds ? w.in_out(a) : w.out(a);
    else
      return (a);
  }

  std::unique_ptr<device> d_;
};

// With the members that are the same on all devices.
class widened : public widened_primitives {
 public:
  using widened_primitives::widened_primitives;

  device_kind kind() const override { return within().kind(); }
  std::string name() const override { return within().name(); }
  std::string numerics_id() const override { return within().numerics_id(); }
  std::shared_ptr<storage> allocate(std::size_t bytes) override { return within().allocate(bytes); }
  pool_statistics pool() const override { return within().pool(); }
  void upload(const void* from, tensor& t) override { within().upload(from, t); }
  void download(const tensor& t, void* to) override { within().download(t, to); }

  // Composed of this device's primitives, so that bf16 tensors get bf16 sums.
  // NOLINTBEGIN(bugprone-parent-virtual-call)
  void gemm_stacked(const gemm_spec& s, std::int64_t packets, const tensor& a, const tensor& b, tensor& c) override {
    device::gemm_stacked(s, packets, a, b, c);
  }
  void gemm_summed(const gemm_spec& s, std::int64_t packets, const tensor& a, const tensor& b, tensor& c) override {
    device::gemm_summed(s, packets, a, b, c);
  }
  void conv_backward_parameters(const conv_geometry& g, const tensor& x, const tensor& dy, tensor& dw, tensor& db,
                                bool add) override {
    device::conv_backward_parameters(g, x, dy, dw, db, add);
  }
  void conv_tail_forward(const conv_geometry& g, const conv_tail& t, const tensor& x, const tensor& w, const tensor& bias,
                         tensor& y, tensor& index) override {
    device::conv_tail_forward(g, t, x, w, bias, y, index);
  }
  void conv_tail_backward(const conv_geometry& g, const conv_tail& t, const tensor& x, const tensor& w, const tensor& y,
                          const tensor& index, const tensor& dy, tensor& dx, tensor& dw, tensor& db) override {
    device::conv_tail_backward(g, t, x, w, y, index, dy, dx, dw, db);
  }
  // NOLINTEND(bugprone-parent-virtual-call)

  // y and dy have a stride, with other time steps in between: they are computed densely and copied.
  void cell_forward(const cell_spec& s, const tensor& bias, tensor& gates, const tensor& h_before, const tensor& c_before,
                    tensor& c, tensor& h, tensor& y) override {
    if (!any_bf16(bias, gates, h_before, c_before, c, h, y))
      return within().cell_forward(s, bias, gates, h_before, c_before, c, h, y);
    cell_spec dense = s;
    dense.stride = s.units;
    tensor values = tensor::allocate(*this, shape{s.rows * s.units}, y.type());
    {
      in_f32 w(*this), states(*this);
      within().cell_forward(dense, w.in(bias), w.in_out(gates), w.in(h_before), w.in(c_before), states.out(c), states.out(h),
                            w.out(values));
    }
    copy_block({s.rows, s.units, 0, s.units, 0, s.stride}, values, y);
  }
  void cell_backward(const cell_spec& s, const tensor& gates, const tensor& h_before, const tensor& h, const tensor& c_before,
                     const tensor& c, const tensor& dy, tensor& dh, tensor& dc, tensor& dgates) override {
    if (!any_bf16(gates, h_before, h, c_before, c, dy, dh, dc, dgates))
      return within().cell_backward(s, gates, h_before, h, c_before, c, dy, dh, dc, dgates);
    cell_spec dense = s;
    dense.stride = s.units;
    tensor slope = tensor::allocate(*this, shape{s.rows * s.units}, dy.type());
    copy_block({s.rows, s.units, 0, s.stride, 0, s.units}, dy, slope);
    in_f32 w(*this);
    within().cell_backward(dense, w.in(gates), w.in(h_before), w.in(h), w.in(c_before), w.in(c), w.in(slope), w.in_out(dh),
                           w.in_out(dc), w.out(dgates));
  }
};

}  // namespace troupe
