// Normalisation by channel.
#include "ops/cuda/kernels/norm.hpp"
#include "ops/cuda/stream.hpp"

namespace troupe::cuda {

void stream::norm_forward(const norm_geometry& g, const tensor& x, const tensor& weight, const tensor& bias, tensor& variance,
                          tensor& table, tensor& y) {
  operation o(*this);
  by_type(y.type(), [&](auto v) {
    using T = decltype(v);
    kernels::norm_forward(o, g, o.in<T>(x), o.in<T>(weight), o.in<T>(bias), o.out<T>(variance), o.out<T>(table), o.out<T>(y));
  });
}

void stream::norm_table(const norm_geometry& g, const tensor& mean, const tensor& variance, const tensor& weight,
                        const tensor& bias, tensor& table) {
  operation o(*this);
  by_type(table.type(), [&](auto v) {
    using T = decltype(v);
    kernels::norm_table(o, g, o.in<T>(mean), o.in<T>(variance), o.in<T>(weight), o.in<T>(bias), o.out<T>(table));
  });
}

void stream::norm_apply(const norm_geometry& g, const tensor& x, const tensor& table, tensor& y) {
  operation o(*this);
  by_type(y.type(),
          [&](auto v) { kernels::norm_apply(o, g, o.in<decltype(v)>(x), o.in<decltype(v)>(table), o.out<decltype(v)>(y)); });
}

void stream::norm_sums(const norm_geometry& g, const tensor& x, const tensor& table, const tensor& dy, tensor& sums) {
  operation o(*this);
  by_type(sums.type(), [&](auto v) {
    using T = decltype(v);
    kernels::norm_sums(o, g, o.in<T>(x), o.in<T>(table), o.in<T>(dy), o.out<T>(sums));
  });
}

void stream::norm_slope(const norm_geometry& g, const tensor& x, const tensor& table, const tensor& sums, double count,
                        const tensor& dy, tensor& dx) {
  operation o(*this);
  by_type(dx.type(), [&](auto v) {
    using T = decltype(v);
    kernels::norm_slope(o, g, o.in<T>(x), o.in<T>(table), o.in<T>(sums), count, o.in<T>(dy), o.out<T>(dx));
  });
}

void stream::norm_backward(const norm_geometry& g, const tensor& x, const tensor& table, const tensor& dy, tensor& sums,
                           tensor& dx) {
  operation o(*this);
  by_type(dx.type(), [&](auto v) {
    using T = decltype(v);
    kernels::norm_backward(o, g, o.in<T>(x), o.in<T>(table), o.in<T>(dy), o.out<T>(sums), o.out<T>(dx));
  });
}

}  // namespace troupe::cuda
