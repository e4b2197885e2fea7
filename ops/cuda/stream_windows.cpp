// Pooling, local response normalisation, and the column matrices of convolutions.
#include "ops/cuda/kernels/lrn.hpp"
#include "ops/cuda/kernels/pool.hpp"
#include "ops/cuda/kernels/window.hpp"
#include "ops/cuda/stream.hpp"

namespace troupe::cuda {

void stream::max_pool(const pool_geometry& g, const tensor& x, tensor& y, tensor& index) {
  operation o(*this);
  by_type(y.type(),
          [&](auto v) { kernels::max_pool(o, g, o.in<decltype(v)>(x), o.out<decltype(v)>(y), o.out<std::int32_t>(index)); });
}

void stream::max_pool_backward(const pool_geometry& g, const tensor& dy, const tensor& index, tensor& dx) {
  operation o(*this);
  by_type(dx.type(), [&](auto v) {
    kernels::max_pool_backward(o, g, o.in<decltype(v)>(dy), o.in<std::int32_t>(index), o.out<decltype(v)>(dx));
  });
}

void stream::avg_pool(const pool_geometry& g, const tensor& x, tensor& y) {
  operation o(*this);
  by_type(y.type(), [&](auto v) { kernels::avg_pool(o, g, o.in<decltype(v)>(x), o.out<decltype(v)>(y)); });
}

void stream::avg_pool_backward(const pool_geometry& g, const tensor& dy, tensor& dx) {
  operation o(*this);
  by_type(dx.type(), [&](auto v) { kernels::avg_pool_backward(o, g, o.in<decltype(v)>(dy), o.out<decltype(v)>(dx)); });
}

void stream::lrn(const lrn_geometry& g, const tensor& x, tensor& y, tensor& scale) {
  operation o(*this);
  by_type(y.type(), [&](auto v) { kernels::lrn(o, g, o.in<decltype(v)>(x), o.out<decltype(v)>(y), o.out<decltype(v)>(scale)); });
}

void stream::lrn_backward(const lrn_geometry& g, const tensor& x, const tensor& scale, const tensor& dy, tensor& dx) {
  operation o(*this);
  by_type(dx.type(), [&](auto v) {
    using T = decltype(v);
    kernels::lrn_backward(o, g, o.in<T>(x), o.in<T>(scale), o.in<T>(dy), o.out<T>(dx));
  });
}

void stream::im2col(const conv_geometry& g, std::int64_t image, std::int64_t group, const tensor& x, tensor& col) {
  operation o(*this);
  by_type(col.type(), [&](auto v) { kernels::im2col(o, g, image, group, o.in<decltype(v)>(x), o.out<decltype(v)>(col)); });
}

void stream::col2im(const conv_geometry& g, std::int64_t image, std::int64_t group, const tensor& col, tensor& dx) {
  operation o(*this);
  by_type(dx.type(), [&](auto v) { kernels::col2im(o, g, image, group, o.in<decltype(v)>(col), o.out<decltype(v)>(dx)); });
}

}  // namespace troupe::cuda
