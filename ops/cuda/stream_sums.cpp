// Sums.
#include "ops/cuda/kernels/sums.hpp"
#include "ops/cuda/stream.hpp"

namespace troupe::cuda {

void stream::reduce_sum(std::int64_t outer, std::int64_t mid, std::int64_t inner, const tensor& x, tensor& z) {
  operation o(*this);
  by_type(z.type(), [&](auto v) { kernels::reduce_sum(o, outer, mid, inner, o.in<decltype(v)>(x), o.out<decltype(v)>(z)); });
}

void stream::reduce_product(std::int64_t outer, std::int64_t mid, std::int64_t inner, const tensor& x, const tensor& y, tensor& z) {
  operation o(*this);
  by_type(z.type(), [&](auto v) {
    using T = decltype(v);
    kernels::reduce_product(o, outer, mid, inner, o.in<T>(x), o.in<T>(y), o.out<T>(z));
  });
}

void stream::moments(std::int64_t outer, std::int64_t mid, std::int64_t inner, const tensor& x, tensor& mean, tensor& variance) {
  operation o(*this);
  by_type(x.type(), [&](auto v) {
    using T = decltype(v);
    kernels::moments(o, outer, mid, inner, o.in<T>(x), o.out<T>(mean), o.out<T>(variance));
  });
}

void stream::sum_squares(const tensor& x, tensor& sum) {
  operation o(*this);
  auto* scratch =
      static_cast<double*>(o.scratch(static_cast<std::size_t>(kernels::sum_squares_scratch(x.count())) * sizeof(double)));
  by_type(x.type(), [&](auto v) { kernels::sum_squares(o, x.count(), o.in<decltype(v)>(x), o.out<double>(sum), scratch); });
}

}  // namespace troupe::cuda
