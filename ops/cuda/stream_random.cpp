// Random numbers.
#include "ops/cuda/kernels/random.hpp"
#include "ops/cuda/stream.hpp"

namespace troupe::cuda {

void stream::dropout(const rng_stream& s, std::uint64_t first_example, double ratio, const tensor& x, tensor& y) {
  operation o(*this);
  by_type(y.type(), [&](auto v) {
    kernels::dropout(o, s, first_example, ratio, x.dims()[0], x.dims().count_from(1), o.in<decltype(v)>(x), o.out<decltype(v)>(y));
  });
}

void stream::sample(draw d, const rng_stream& s, std::uint64_t first_example, const tensor& x, tensor& y) {
  operation o(*this);
  by_type(y.type(), [&](auto v) {
    kernels::sample(o, d, s, first_example, x.dims()[0], x.dims().count_from(1), o.in<decltype(v)>(x), o.out<decltype(v)>(y));
  });
}

void stream::fill_uniform(const rng_stream& s, double low, double high, tensor& t) {
  operation o(*this);
  by_type(t.type(), [&](auto v) { kernels::fill_uniform(o, s, low, high, t.count(), o.out<decltype(v)>(t)); });
}

void stream::fill_gaussian(const rng_stream& s, double mean, double deviation, tensor& t) {
  operation o(*this);
  by_type(t.type(), [&](auto v) { kernels::fill_gaussian(o, s, mean, deviation, t.count(), o.out<decltype(v)>(t)); });
}

}  // namespace troupe::cuda
