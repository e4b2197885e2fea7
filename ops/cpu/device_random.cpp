// The CPU device: random numbers.
#include "ops/cpu/cpu_device.hpp"

namespace troupe::cpu {

void cpu_device::dropout(const rng_stream& s, std::uint64_t first_example, double ratio, const tensor& x, tensor& y) {
  assert(ratio >= 0 && ratio < 1);
  run("dropout", y, [&](const auto& k, auto v) {
    using T = decltype(v);
    k.dropout(s, first_example, ratio, x.dims()[0], x.dims().count_from(1), x.data<T>(), out<T>(y));
  });
}

void cpu_device::sample(draw d, const rng_stream& s, std::uint64_t first_example, const tensor& x, tensor& y) {
  assert(x.count() == y.count());
  run("sample", y, [&](const auto& k, auto v) {
    using T = decltype(v);
    k.sample(d == draw::gaussian, s, first_example, x.dims()[0], x.dims().count_from(1), x.data<T>(), out<T>(y));
  });
}

void cpu_device::fill_uniform(const rng_stream& s, double low, double high, tensor& t) {
  run("fill_uniform", t, [&](const auto& k, auto v) { k.fill_uniform(s, low, high, t.count(), out<decltype(v)>(t)); });
}

void cpu_device::fill_gaussian(const rng_stream& s, double mean, double deviation, tensor& t) {
  run("fill_gaussian", t, [&](const auto& k, auto v) { k.fill_gaussian(s, mean, deviation, t.count(), out<decltype(v)>(t)); });
}

}  // namespace troupe::cpu
