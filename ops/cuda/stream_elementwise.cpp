// Element-wise primitives.
#include "ops/cuda/kernels/elementwise.hpp"
#include "ops/cuda/stream.hpp"

namespace troupe::cuda {

void stream::fill(double value, tensor& t) {
  operation o(*this);
  if (t.type() == dtype::i32) return kernels::fill<std::int32_t>(o, value, t.count(), o.out<std::int32_t>(t));
  by_type(t.type(), [&](auto v) { kernels::fill(o, value, t.count(), o.out<decltype(v)>(t)); });
}

void stream::axpy(double a, const tensor& x, tensor& y) {
  operation o(*this);
  by_type(y.type(), [&](auto v) { kernels::axpy(o, a, y.count(), o.in<decltype(v)>(x), o.out<decltype(v)>(y)); });
}

void stream::scale(double a, tensor& x) {
  operation o(*this);
  by_type(x.type(), [&](auto v) { kernels::scale(o, a, x.count(), o.out<decltype(v)>(x)); });
}

void stream::apply(binary op, const tensor& x, const tensor& y, tensor& z) {
  operation o(*this);
  by_type(z.type(), [&](auto v) {
    using T = decltype(v);
    kernels::apply(o, op, z.count(), o.in<T>(x), o.in<T>(y), o.out<T>(z));
  });
}

void stream::add_bias(std::int64_t outer, std::int64_t channels, std::int64_t inner, const tensor& bias, tensor& y) {
  operation o(*this);
  by_type(y.type(), [&](auto v) { kernels::add_bias(o, outer, channels, inner, o.in<decltype(v)>(bias), o.out<decltype(v)>(y)); });
}

void stream::blend(std::int64_t outer, std::int64_t mid, std::int64_t inner, const tensor& x, const tensor& a, const tensor& y,
                   const tensor& b, const tensor& shift, tensor& out) {
  operation o(*this);
  by_type(out.type(), [&](auto v) {
    using T = decltype(v);
    kernels::blend(o, outer, mid, inner, o.in<T>(x), o.in<T>(a), o.in<T>(y), o.in<T>(b), o.in<T>(shift), o.out<T>(out));
  });
}

void stream::map(unary f, double parameter, const tensor& x, tensor& y) {
  operation o(*this);
  by_type(y.type(), [&](auto v) { kernels::map(o, f, parameter, y.count(), o.in<decltype(v)>(x), o.out<decltype(v)>(y)); });
}

void stream::map_backward(unary f, double parameter, const tensor& x, const tensor& y, const tensor& dy, tensor& dx) {
  operation o(*this);
  by_type(dx.type(), [&](auto v) {
    using T = decltype(v);
    kernels::map_backward(o, f, parameter, dx.count(), o.in<T>(x), o.in<T>(y), o.in<T>(dy), o.out<T>(dx));
  });
}

void stream::select_equal(const tensor& x, const tensor& y, const tensor& dy, tensor& dx) {
  operation o(*this);
  by_type(dx.type(), [&](auto v) {
    using T = decltype(v);
    kernels::select_equal(o, dx.count(), o.in<T>(x), o.in<T>(y), o.in<T>(dy), o.out<T>(dx));
  });
}

}  // namespace troupe::cuda
