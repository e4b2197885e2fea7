// The CPU device: element-wise sums and maps, and the cells of recurrent layers.
#include "ops/cpu/cpu_device.hpp"

namespace troupe::cpu {

void cpu_device::axpy(double a, const tensor& x, tensor& y) {
  assert(x.count() == y.count());
  run("axpy", y, [&](const auto& k, auto v) {
    using T = decltype(v);
    k.axpy(y.count(), static_cast<T>(a), x.data<T>(), out<T>(y));
  });
}

void cpu_device::scale(double a, tensor& x) {
  run("scale", x, [&](const auto& k, auto v) { k.scale(x.count(), static_cast<decltype(v)>(a), out<decltype(v)>(x)); });
}

void cpu_device::apply(binary op, const tensor& x, const tensor& y, tensor& z) {
  assert(x.count() == z.count() && y.count() == z.count());
  run("apply", z, [&](const auto& k, auto v) {
    using T = decltype(v);
    k.apply(static_cast<int>(op), z.count(), x.data<T>(), y.data<T>(), out<T>(z));
  });
}

void cpu_device::add_bias(i64 outer, i64 channels, i64 inner, const tensor& bias, tensor& y) {
  assert(y.count() == outer * channels * inner && bias.count() == channels);
  run("add_bias", y, [&](const auto& k, auto v) {
    using T = decltype(v);
    k.add_bias(outer, channels, inner, bias.data<T>(), out<T>(y));
  });
}

void cpu_device::map(unary f, double parameter, const tensor& x, tensor& y) {
  assert(x.count() == y.count());
  run("map", y, [&](const auto& k, auto v) {
    using T = decltype(v);
    k.map(static_cast<int>(f), static_cast<T>(parameter), y.count(), x.data<T>(), out<T>(y));
  });
}

void cpu_device::map_backward(unary f, double parameter, const tensor& x, const tensor& y, const tensor& dy, tensor& dx) {
  assert(dy.count() == dx.count() && (needs_input(f) ? x : y).count() == dx.count());
  run("map_backward", dx, [&](const auto& k, auto v) {
    using T = decltype(v);
    k.map_backward(static_cast<int>(f), static_cast<T>(parameter), dx.count(), static_cast<const T*>(optional_data(x)),
                   static_cast<const T*>(optional_data(y)), dy.data<T>(), out<T>(dx));
  });
}

void cpu_device::select_equal(const tensor& x, const tensor& y, const tensor& dy, tensor& dx) {
  run("select_equal", dx, [&](const auto& k, auto v) {
    using T = decltype(v);
    k.select_equal(dx.count(), x.data<T>(), y.data<T>(), dy.data<T>(), out<T>(dx));
  });
}

void cpu_device::cell_forward(const cell_spec& s, const tensor& bias, tensor& gates, const tensor& h_before, const tensor& c_before,
                              tensor& c, tensor& h, tensor& y) {
  run("cell", gates, [&](const auto& k, auto v) {
    using T = decltype(v);
    k.cell_forward(s, bias.data<T>(), out<T>(gates), h_before.data<T>(), static_cast<const T*>(optional_data(c_before)),
                   c ? out<T>(c) : nullptr, out<T>(h), out<T>(y));
  });
}

void cpu_device::cell_backward(const cell_spec& s, const tensor& gates, const tensor& h_before, const tensor& h,
                               const tensor& c_before, const tensor& c, const tensor& dy, tensor& dh, tensor& dc, tensor& dgates) {
  run("cell", dgates, [&](const auto& k, auto v) {
    using T = decltype(v);
    k.cell_backward(s, static_cast<const T*>(optional_data(gates)), h_before.data<T>(), h.data<T>(),
                    static_cast<const T*>(optional_data(c_before)), static_cast<const T*>(optional_data(c)), dy.data<T>(),
                    out<T>(dh), dc ? out<T>(dc) : nullptr, out<T>(dgates));
  });
}

}  // namespace troupe::cpu
