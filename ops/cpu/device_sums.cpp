// The CPU device: sums over axes, and normalisation.
#include "ops/cpu/cpu_device.hpp"

namespace troupe::cpu {

void cpu_device::reduce_sum(i64 outer, i64 mid, i64 inner, const tensor& x, tensor& z) {
  assert(x.count() == outer * mid * inner && z.count() == mid);
  run("reduce_sum", z, [&](const auto& k, auto v) {
    using T = decltype(v);
    k.reduce_sum(outer, mid, inner, x.data<T>(), out<T>(z));
  });
}

void cpu_device::reduce_product(i64 outer, i64 mid, i64 inner, const tensor& x, const tensor& y, tensor& z) {
  assert(x.count() == outer * mid * inner && y.count() == x.count() && z.count() == mid);
  run("reduce_product", z, [&](const auto& k, auto v) {
    using T = decltype(v);
    k.reduce_product(outer, mid, inner, x.data<T>(), y.data<T>(), out<T>(z));
  });
}

void cpu_device::moments(i64 outer, i64 mid, i64 inner, const tensor& x, tensor& mean, tensor& variance) {
  assert(x.count() == outer * mid * inner && mean.count() == mid && variance.count() == mid);
  run("moments", mean, [&](const auto& k, auto v) {
    using T = decltype(v);
    k.moments(outer, mid, inner, x.data<T>(), out<T>(mean), out<T>(variance));
  });
}

void cpu_device::blend(i64 outer, i64 mid, i64 inner, const tensor& x, const tensor& a, const tensor& y, const tensor& b,
                       const tensor& shift, tensor& z) {
  assert(x.count() == outer * mid * inner && z.count() == x.count() && (!y || y.count() == x.count()));
  run("blend", z, [&](const auto& k, auto v) {
    using T = decltype(v);
    const auto optional = [](const tensor& t) { return t ? t.data<T>() : nullptr; };
    k.blend(outer, mid, inner, x.data<T>(), optional(a), optional(y), optional(b), optional(shift), out<T>(z));
  });
}

void cpu_device::sum_squares(const tensor& x, tensor& sum) {
  run("sum_squares", x,
      [&](const auto& k, auto v) { *sum.mutable_data<double>() = k.sum_squares(x.count(), x.data<decltype(v)>()); });
}

void cpu_device::norm_forward(const norm_geometry& g, const tensor& x, const tensor& w, const tensor& b, tensor& variance,
                              tensor& table, tensor& y) {
  assert(x.count() == g.outer * g.mid * g.inner && y.count() == x.count());
  run("norm", y, [&](const auto& k, auto v) {
    using T = decltype(v);
    k.norm_forward(g, x.data<T>(), static_cast<const T*>(optional_data(w)), static_cast<const T*>(optional_data(b)),
                   out<T>(variance), out<T>(table), out<T>(y));
  });
}

void cpu_device::norm_table(const norm_geometry& g, const tensor& mean, const tensor& variance, const tensor& w, const tensor& b,
                            tensor& table) {
  assert(mean.count() == g.mid && variance.count() == g.mid && table.count() == 4 * g.mid);
  run("norm", table, [&](const auto& k, auto v) {
    using T = decltype(v);
    k.norm_table(g, mean.data<T>(), variance.data<T>(), static_cast<const T*>(optional_data(w)),
                 static_cast<const T*>(optional_data(b)), out<T>(table));
  });
}

void cpu_device::norm_apply(const norm_geometry& g, const tensor& x, const tensor& table, tensor& y) {
  assert(x.count() == g.outer * g.mid * g.inner && y.count() == x.count());
  run("norm", y, [&](const auto& k, auto v) {
    using T = decltype(v);
    k.norm_apply(g, x.data<T>(), table.data<T>(), out<T>(y));
  });
}

void cpu_device::norm_sums(const norm_geometry& g, const tensor& x, const tensor& table, const tensor& dy, tensor& sums) {
  assert(x.count() == g.outer * g.mid * g.inner && dy.count() == x.count() && sums.count() == 2 * g.mid);
  run("norm", sums, [&](const auto& k, auto v) {
    using T = decltype(v);
    k.norm_sums(g, x.data<T>(), table.data<T>(), dy.data<T>(), out<T>(sums));
  });
}

void cpu_device::norm_slope(const norm_geometry& g, const tensor& x, const tensor& table, const tensor& sums, double count,
                            const tensor& dy, tensor& dx) {
  assert(dx.count() == g.outer * g.mid * g.inner && x.count() == dx.count() && dy.count() == dx.count());
  run("norm", dx, [&](const auto& k, auto v) {
    using T = decltype(v);
    tensor spare = tensor::allocate(*this, shape{2 * g.mid}, dx.type());
    k.norm_slope(g, x.data<T>(), table.data<T>(), sums.data<T>(), count, dy.data<T>(), out<T>(dx), out<T>(spare));
  });
}

void cpu_device::norm_backward(const norm_geometry& g, const tensor& x, const tensor& table, const tensor& dy, tensor& sums,
                               tensor& dx) {
  assert(dx.count() == g.outer * g.mid * g.inner && x.count() == dx.count() && dy.count() == dx.count());
  run("norm", dx, [&](const auto& k, auto v) {
    using T = decltype(v);
    tensor spare = tensor::allocate(*this, shape{2 * g.mid}, dx.type());
    k.norm_backward(g, x.data<T>(), table.data<T>(), dy.data<T>(), out<T>(sums), out<T>(dx), out<T>(spare));
  });
}

}  // namespace troupe::cpu
