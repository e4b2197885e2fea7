// Each thread computes every k-th element, k being the number of threads of the grid. Neighbouring
// threads access neighbouring elements.
#include "ops/cuda/kernels/elementwise.hpp"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "ops/bf16.hpp"
#include "ops/cuda/kernel_language.hpp"

namespace troupe::cuda::kernels {
namespace {

using i64 = std::int64_t;

constexpr int elementwise_block = 256;
constexpr i64 elementwise_blocks = 2112;  // two waves of full multiprocessors on an H100

unsigned elementwise_grid(i64 n) {
  return static_cast<unsigned>(std::min((n + elementwise_block - 1) / elementwise_block, elementwise_blocks));
}

__device__ i64 elementwise_first() { return static_cast<i64>(blockIdx.x) * elementwise_block + threadIdx.x; }
__device__ i64 elementwise_step() { return static_cast<i64>(gridDim.x) * elementwise_block; }

template <class T>
__global__ void __launch_bounds__(elementwise_block) fill_kernel(T value, i64 n, T* x) {
  for (i64 i = elementwise_first(); i < n; i += elementwise_step()) x[i] = value;
}

template <class T>
__global__ void __launch_bounds__(elementwise_block) axpy_kernel(T a, i64 n, const T* x, T* y) {
  for (i64 i = elementwise_first(); i < n; i += elementwise_step()) y[i] += a * x[i];
}

template <class T>
__global__ void __launch_bounds__(elementwise_block) scale_kernel(T a, i64 n, T* x) {
  for (i64 i = elementwise_first(); i < n; i += elementwise_step()) x[i] *= a;
}

template <binary Op, class T>
__device__ T combined(T a, T b) {
  if constexpr (Op == binary::add) return a + b;
  if constexpr (Op == binary::subtract) return a - b;
  if constexpr (Op == binary::multiply) return a * b;
  if constexpr (Op == binary::maximum) return a > b || a != a ? a : b;
  if constexpr (Op == binary::rectified_sum) return a + b < T(0) ? T(0) : a + b;
}

template <binary Op, class T>
__global__ void __launch_bounds__(elementwise_block) apply_kernel(i64 n, const T* x, const T* y, T* out) {
  for (i64 i = elementwise_first(); i < n; i += elementwise_step()) out[i] = combined<Op>(x[i], y[i]);
}

template <class T>
__global__ void __launch_bounds__(elementwise_block) add_bias_kernel(i64 n, i64 channels, i64 inner, const T* bias, T* y) {
  for (i64 i = elementwise_first(); i < n; i += elementwise_step()) y[i] += bias[(inner == 1 ? i : i / inner) % channels];
}

template <class T>
__global__ void __launch_bounds__(elementwise_block)
    blend_kernel(i64 n, i64 mid, i64 inner, const T* x, const T* a, const T* y, const T* b, const T* shift, T* out) {
  for (i64 i = elementwise_first(); i < n; i += elementwise_step()) {
    const i64 m = (inner == 1 ? i : i / inner) % mid;
    T v = a ? x[i] * a[m] : x[i];
    if (y) v += b ? y[i] * b[m] : y[i];
    out[i] = v + (shift ? shift[m] : T(0));
  }
}

template <class T>
__global__ void __launch_bounds__(elementwise_block) select_equal_kernel(i64 n, const T* x, const T* y, const T* dy, T* dx) {
  for (i64 i = elementwise_first(); i < n; i += elementwise_step()) dx[i] = x[i] == y[i] ? dy[i] : T(0);
}

// --- the functions of `unary`; ops/cpu/maths.inl has the formulas

template <class T>
__device__ T cdf_of_normal(T x) {
  return T(0.5) * std::erfc(x * T(-0.70710678118654752440));
}
template <class T>
__device__ T density_of_normal(T x) {
  return T(0.39894228040143267794) * std::exp(T(-0.5) * x * x);
}
template <class T>
__device__ T inner_of_gelu(T x) {
  return T(0.79788456080286535588) * (x + T(0.044715) * x * x * x);
}
template <class T>
__device__ T slope_of_gelu_tanh(T x) {
  const T t = std::tanh(inner_of_gelu(x));
  const T inner_slope = T(0.79788456080286535588) * (T(1) + T(3 * 0.044715) * x * x);
  return T(0.5) * (T(1) + t) + T(0.5) * x * (T(1) - t * t) * inner_slope;
}

template <class T>
__device__ T clamped(T x, T most) {
  const T low = x < T(0) ? T(0) : x;  // NaN stays
  return low > most ? most : low;
}
template <class T>
__device__ T slope_of_silu(T x) {
  const T s = T(1) / (T(1) + std::exp(-x));
  return s * (T(1) + x * (T(1) - s));
}
template <class T>
__device__ T slope_of_hard_swish(T x) {
  const T t = x * T(1.0 / 6) + T(0.5);
  const T inside = x * T(1.0 / 3) + T(0.5);
  return t > T(0) ? (t < T(1) ? inside : T(1)) : T(0);
}

template <unary F, class T>
__device__ T mapped(T v, T parameter) {
  if constexpr (F == unary::relu) {
    if (parameter == T(0)) return v < T(0) ? T(0) : v;  // NaN and -0 stay
    return v > T(0) ? v : parameter * v;
  }
  if constexpr (F == unary::sigmoid) return T(1) / (T(1) + std::exp(-v));
  if constexpr (F == unary::tanh) return std::tanh(v);
  if constexpr (F == unary::exp) return std::exp(v);
  if constexpr (F == unary::log) return std::log(v);
  if constexpr (F == unary::sqrt) return std::sqrt(v);
  if constexpr (F == unary::square) return v * v;
  if constexpr (F == unary::absolute) return v < T(0) ? -v : v;
  if constexpr (F == unary::elu) return v > T(0) ? v : parameter * (std::exp(v) - T(1));
  if constexpr (F == unary::gelu) return v * cdf_of_normal(v);
  if constexpr (F == unary::gelu_tanh) return T(0.5) * v * (T(1) + std::tanh(inner_of_gelu(v)));
  if constexpr (F == unary::inverse_root) return T(1) / std::sqrt(v + parameter);
  if constexpr (F == unary::relu6) return clamped(v, parameter);
  if constexpr (F == unary::silu) return v * (T(1) / (T(1) + std::exp(-v)));
  if constexpr (F == unary::hard_sigmoid) return clamped(parameter * v + T(0.5), T(1));
  if constexpr (F == unary::hard_swish) return v * clamped(v * T(1.0 / 6) + T(0.5), T(1));
}

// d f'(x); v is x if device::needs_input(F), otherwise f(x).
template <unary F, class T>
__device__ T mapped_back(T v, T d, T parameter) {
  if constexpr (F == unary::relu) {
    if (parameter == T(0)) return v > T(0) ? d : T(0);
    return v > T(0) ? d : parameter * d;
  }
  if constexpr (F == unary::sigmoid) return d * (v * (T(1) - v));
  if constexpr (F == unary::tanh) return d * (T(1) - v * v);
  if constexpr (F == unary::exp) return d * v;
  if constexpr (F == unary::log) return d / v;
  if constexpr (F == unary::sqrt) return d * (T(0.5) / v);
  if constexpr (F == unary::square) return d * (T(2) * v);
  if constexpr (F == unary::absolute) return v < T(0) ? -d : (v > T(0) ? d : T(0));
  if constexpr (F == unary::elu) return v > T(0) ? d : d * (v + parameter);
  if constexpr (F == unary::gelu) return d * (cdf_of_normal(v) + v * density_of_normal(v));
  if constexpr (F == unary::gelu_tanh) return d * slope_of_gelu_tanh(v);
  if constexpr (F == unary::inverse_root) return d * (T(-0.5) * v * v * v);
  if constexpr (F == unary::relu6) return v > T(0) && v < parameter ? d : T(0);
  if constexpr (F == unary::silu) return d * slope_of_silu(v);
  if constexpr (F == unary::hard_sigmoid) {  // outside, 0 and not d 0, which may be -0 or NaN
    const T t = parameter * v + T(0.5);
    return t > T(0) && t < T(1) ? d * parameter : T(0);
  }
  if constexpr (F == unary::hard_swish) return d * slope_of_hard_swish(v);
}

// At least 4 blocks per multiprocessor: without this limit ptxas aims at 40 registers and spills
// exp of f64.
template <unary F, class T>
__global__ void __launch_bounds__(elementwise_block, 4) map_kernel(T parameter, i64 n, const T* x, T* y) {
  for (i64 i = elementwise_first(); i < n; i += elementwise_step()) y[i] = mapped<F>(x[i], parameter);
}

template <unary F, class T>
__global__ void __launch_bounds__(elementwise_block) map_backward_kernel(T parameter, i64 n, const T* v, const T* dy, T* dx) {
  for (i64 i = elementwise_first(); i < n; i += elementwise_step()) dx[i] = mapped_back<F>(v[i], dy[i], parameter);
}

// Calls run(constant of f).
template <class Run>
void with_unary(unary f, Run run) {
  switch (f) {
    case unary::relu: return run(std::integral_constant<unary, unary::relu>{});
    case unary::sigmoid: return run(std::integral_constant<unary, unary::sigmoid>{});
    case unary::tanh: return run(std::integral_constant<unary, unary::tanh>{});
    case unary::exp: return run(std::integral_constant<unary, unary::exp>{});
    case unary::log: return run(std::integral_constant<unary, unary::log>{});
    case unary::sqrt: return run(std::integral_constant<unary, unary::sqrt>{});
    case unary::square: return run(std::integral_constant<unary, unary::square>{});
    case unary::absolute: return run(std::integral_constant<unary, unary::absolute>{});
    case unary::elu: return run(std::integral_constant<unary, unary::elu>{});
    case unary::gelu: return run(std::integral_constant<unary, unary::gelu>{});
    case unary::gelu_tanh: return run(std::integral_constant<unary, unary::gelu_tanh>{});
    case unary::inverse_root: return run(std::integral_constant<unary, unary::inverse_root>{});
    case unary::relu6: return run(std::integral_constant<unary, unary::relu6>{});
    case unary::silu: return run(std::integral_constant<unary, unary::silu>{});
    case unary::hard_sigmoid: return run(std::integral_constant<unary, unary::hard_sigmoid>{});
    case unary::hard_swish: return run(std::integral_constant<unary, unary::hard_swish>{});
  }
}

// Appends a launch of an element-wise kernel for n elements.
template <class... P, class... A>
void launch_each(void (*kernel)(P...), i64 n, cudaStream_t s, A... args) {
  if (n > 0) launch(kernel, elementwise_grid(n), elementwise_block, 0, s, args...);
}

}  // namespace

template <class T>
void fill(cudaStream_t s, double value, i64 n, T* x) {
  if constexpr (std::is_same_v<T, bf16>)
    launch_each(fill_kernel<std::uint16_t>, n, s, to_bf16(static_cast<float>(value)).bits, n, reinterpret_cast<std::uint16_t*>(x));
  else
    launch_each(fill_kernel<T>, n, s, static_cast<T>(value), n, x);
}

template <class T>
void axpy(cudaStream_t s, double a, i64 n, const T* x, T* y) {
  launch_each(axpy_kernel<T>, n, s, static_cast<T>(a), n, x, y);
}

template <class T>
void scale(cudaStream_t s, double a, i64 n, T* x) {
  launch_each(scale_kernel<T>, n, s, static_cast<T>(a), n, x);
}

template <class T>
void apply(cudaStream_t s, binary op, i64 n, const T* x, const T* y, T* out) {
  switch (op) {
    case binary::add: return launch_each(apply_kernel<binary::add, T>, n, s, n, x, y, out);
    case binary::subtract: return launch_each(apply_kernel<binary::subtract, T>, n, s, n, x, y, out);
    case binary::multiply: return launch_each(apply_kernel<binary::multiply, T>, n, s, n, x, y, out);
    case binary::maximum: return launch_each(apply_kernel<binary::maximum, T>, n, s, n, x, y, out);
    case binary::rectified_sum: return launch_each(apply_kernel<binary::rectified_sum, T>, n, s, n, x, y, out);
  }
}

template <class T>
void add_bias(cudaStream_t s, i64 outer, i64 channels, i64 inner, const T* bias, T* y) {
  const i64 n = outer * channels * inner;
  launch_each(add_bias_kernel<T>, n, s, n, channels, inner, bias, y);
}

template <class T>
void blend(cudaStream_t s, i64 outer, i64 mid, i64 inner, const T* x, const T* a, const T* y, const T* b, const T* shift, T* out) {
  const i64 n = outer * mid * inner;
  launch_each(blend_kernel<T>, n, s, n, mid, inner, x, a, y, b, shift, out);
}

template <class T>
void map(cudaStream_t s, unary f, double parameter, i64 n, const T* x, T* y) {
  with_unary(f, [&](auto c) { launch_each(map_kernel<decltype(c)::value, T>, n, s, static_cast<T>(parameter), n, x, y); });
}

template <class T>
void map_backward(cudaStream_t s, unary f, double parameter, i64 n, const T* x, const T* y, const T* dy, T* dx) {
  const T* v = device::needs_input(f) ? x : y;
  with_unary(
      f, [&](auto c) { launch_each(map_backward_kernel<decltype(c)::value, T>, n, s, static_cast<T>(parameter), n, v, dy, dx); });
}

template <class T>
void select_equal(cudaStream_t s, i64 n, const T* x, const T* y, const T* dy, T* dx) {
  launch_each(select_equal_kernel<T>, n, s, n, x, y, dy, dx);
}

template void fill(cudaStream_t, double, i64, std::int32_t*);
template void fill(cudaStream_t, double, i64, bf16*);
#define TROUPE_ELEMENTWISE(T)                                                                             \
  template void fill(cudaStream_t, double, i64, T*);                                                      \
  template void axpy(cudaStream_t, double, i64, const T*, T*);                                            \
  template void scale(cudaStream_t, double, i64, T*);                                                     \
  template void apply(cudaStream_t, binary, i64, const T*, const T*, T*);                                 \
  template void add_bias(cudaStream_t, i64, i64, i64, const T*, T*);                                      \
  template void blend(cudaStream_t, i64, i64, i64, const T*, const T*, const T*, const T*, const T*, T*); \
  template void map(cudaStream_t, unary, double, i64, const T*, T*);                                      \
  template void map_backward(cudaStream_t, unary, double, i64, const T*, const T*, const T*, T*);         \
  template void select_equal(cudaStream_t, i64, const T*, const T*, const T*, T*)
TROUPE_ELEMENTWISE(float);
TROUPE_ELEMENTWISE(double);
#undef TROUPE_ELEMENTWISE

}  // namespace troupe::cuda::kernels
