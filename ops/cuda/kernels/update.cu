// One kernel for all rules: each thread reads an element of the weights, the gradient and the
// states, calls the rule, and writes the results. The arithmetic is that of ops/cpu/update.inl.
#include "ops/cuda/kernels/update.hpp"

#include <algorithm>
#include <cmath>

#include "ops/cuda/kernel_language.hpp"

namespace troupe::cuda::kernels {
namespace {

constexpr int update_threads = 256;
constexpr int least_blocks = 4;                    // on a multiprocessor: leaves 64 registers, so that none spills
constexpr std::int64_t most_update_blocks = 2048;  // fills the largest GPU; threads loop over the rest

// The gradient that the rules use (gradient_spec). An infinite limit changes no value. NaN stays
// NaN.
template <class T>
struct rule_gradient {
  using plain = void;
  T scale, limit, decay, decay_l1;
  explicit rule_gradient(const gradient_spec& s)
      : scale(static_cast<T>(s.scale)),
        limit(static_cast<T>(s.limit)),
        decay(static_cast<T>(s.decay)),
        decay_l1(static_cast<T>(s.decay_l1)) {}
  __device__ T operator()(T g, T w) const {
    g = scale * g;
    g = g > limit ? limit : g;
    g = g < -limit ? -limit : g;
    g = g + decay * w;
    if (decay_l1 == 0) return g;  // adding 0 would change -0
    return w > T(0) ? g + decay_l1 : w < T(0) ? g - decay_l1 : g;
  }
};

// The rules. operator() takes a weight, its gradient d and its states, updates the states and
// returns the new weight. `states`: number of states of the rule; the others are not used.
template <class T>
struct sgd_rule {
  using plain = void;
  static constexpr int states = 0;
  T lr;
  __device__ T operator()(T w, T d, T&, T&, T&) const { return w - lr * d; }
};
template <class T, bool Nesterov>
struct momentum_rule {
  using plain = void;
  static constexpr int states = 1;
  T lr, momentum;
  __device__ T operator()(T w, T d, T& v, T&, T&) const {
    v = momentum * v + d;
    return w - lr * (Nesterov ? d + momentum * v : v);
  }
};
template <class T>
struct adagrad_rule {
  using plain = void;
  static constexpr int states = 1;
  T lr, eps, first;
  explicit adagrad_rule(const adaptive_spec& s)
      : lr(static_cast<T>(s.lr)), eps(static_cast<T>(s.eps)), first(static_cast<T>(s.first)) {}
  __device__ T operator()(T w, T d, T& sum, T&, T&) const {
    sum = sum + d * d;
    return w - lr * (d / (std::sqrt(first + sum) + eps));
  }
};
template <class T, bool Centered, bool Heavy>
struct rmsprop_rule {
  using plain = void;
  static constexpr int states = 1 + (Centered ? 1 : 0) + (Heavy ? 1 : 0);
  T lr, eps, keep, add, momentum;
  explicit rmsprop_rule(const adaptive_spec& s)
      : lr(static_cast<T>(s.lr)),
        eps(static_cast<T>(s.eps)),
        keep(static_cast<T>(s.keep_2)),
        add(static_cast<T>(1 - s.keep_2)),
        momentum(static_cast<T>(s.momentum)) {}
  __device__ T operator()(T w, T d, T& square, T& second, T& third) const {
    square = keep * square + add * (d * d);
    T a = square;
    if constexpr (Centered) {
      T& mean = second;
      mean = keep * mean + add * d;
      // A variance, so rounding must not make it negative.
      a = a - mean * mean;
      a = a < T(0) ? T(0) : a;
    }
    T u = d / (std::sqrt(a) + eps);
    if constexpr (Heavy) {
      T& v = Centered ? third : second;
      v = momentum * v + u;
      u = v;
    }
    return w - lr * u;
  }
};
template <class T>
struct adadelta_rule {
  using plain = void;
  static constexpr int states = 2;
  T lr, eps, keep, add;
  explicit adadelta_rule(const adaptive_spec& s)
      : lr(static_cast<T>(s.lr)), eps(static_cast<T>(s.eps)), keep(static_cast<T>(s.keep_2)), add(static_cast<T>(1 - s.keep_2)) {}
  __device__ T operator()(T w, T d, T& square, T& moved, T&) const {
    square = keep * square + add * (d * d);
    const T u = std::sqrt(moved + eps) / std::sqrt(square + eps) * d;
    moved = keep * moved + add * (u * u);
    return w - lr * u;
  }
};
// The numbers of adam and adamax.
template <class T>
struct adam_numbers {
  T lr, eps, keep_1, add_1, keep_2, add_2, deviation, keep_weight;
  explicit adam_numbers(const adaptive_spec& s)
      : lr(static_cast<T>(s.lr)),
        eps(static_cast<T>(s.eps)),
        keep_1(static_cast<T>(s.keep_1)),
        add_1(static_cast<T>(1 - s.keep_1)),
        keep_2(static_cast<T>(s.keep_2)),
        add_2(static_cast<T>(1 - s.keep_2)),
        deviation(static_cast<T>(s.deviation)),
        keep_weight(static_cast<T>(s.keep_weight)) {}
};
template <class T>
struct adam_rule {
  using plain = void;
  static constexpr int states = 2;
  adam_numbers<T> k;
  __device__ T operator()(T w, T d, T& mean, T& square, T&) const {
    mean = k.keep_1 * mean + k.add_1 * d;
    square = k.keep_2 * square + k.add_2 * (d * d);
    return k.keep_weight * w - k.lr * (mean / (std::sqrt(square) / k.deviation + k.eps));
  }
};
template <class T>
struct adamax_rule {
  using plain = void;
  static constexpr int states = 2;
  adam_numbers<T> k;
  __device__ T operator()(T w, T d, T& mean, T& norm, T&) const {
    mean = k.keep_1 * mean + k.add_1 * d;
    const T size = (d < T(0) ? -d : d) + k.eps;
    const T kept = k.keep_2 * norm;
    norm = size > kept || size != size ? size : kept;  // preserves a NaN
    return w - k.lr * (mean / norm);
  }
};

// All arrays: [n]. Those of states that the rule does not have are null.
template <class T, class Rule>
__global__ void __launch_bounds__(update_threads, least_blocks)
    update_kernel(Rule rule, rule_gradient<T> gradient, std::int64_t n, const T* w, const T* g, const T* from_0, const T* from_1,
                  const T* from_2, T* w_out, T* to_0, T* to_1, T* to_2) {
  const std::int64_t step = static_cast<std::int64_t>(blockDim.x) * gridDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += step) {
    const T before = w[i];
    const T d = gradient(g[i], before);
    T a = 0, b = 0, c = 0;
    if constexpr (Rule::states > 0) a = from_0[i];
    if constexpr (Rule::states > 1) b = from_1[i];
    if constexpr (Rule::states > 2) c = from_2[i];
    const T after = rule(before, d, a, b, c);
    if constexpr (Rule::states > 0) to_0[i] = a;
    if constexpr (Rule::states > 1) to_1[i] = b;
    if constexpr (Rule::states > 2) to_2[i] = c;
    w_out[i] = after;
  }
}

// The memory of one update.
template <class T>
struct update_memory {
  std::int64_t n;
  const T *w, *g;
  std::array<const T*, 3> states;
  T* w_out;
  std::array<T*, 3> states_out;
};

template <class T, class Rule>
void launch_update(cudaStream_t stream, const Rule& rule, const gradient_spec& gradient, const update_memory<T>& m) {
  const std::int64_t blocks = std::min((m.n + update_threads - 1) / update_threads, most_update_blocks);
  launch(update_kernel<T, Rule>, static_cast<unsigned>(blocks), update_threads, 0, stream, rule, rule_gradient<T>(gradient), m.n,
         m.w, m.g, m.states[0], m.states[1], m.states[2], m.w_out, m.states_out[0], m.states_out[1], m.states_out[2]);
}

template <class T>
void launch_rmsprop(cudaStream_t stream, const adaptive_spec& s, const update_memory<T>& m) {
  const bool heavy = s.momentum != 0;
  if (s.centered && heavy) return launch_update(stream, rmsprop_rule<T, true, true>(s), s.gradient, m);
  if (s.centered) return launch_update(stream, rmsprop_rule<T, true, false>(s), s.gradient, m);
  if (heavy) return launch_update(stream, rmsprop_rule<T, false, true>(s), s.gradient, m);
  launch_update(stream, rmsprop_rule<T, false, false>(s), s.gradient, m);
}

}  // namespace

template <class T>
void sgd_update(cudaStream_t stream, const sgd_spec& s, std::int64_t n, const T* w, const T* g, const T* v, T* w_out, T* v_out) {
  if (n == 0) return;
  const update_memory<T> m{n, w, g, {v}, w_out, {v_out}};
  const T lr = static_cast<T>(s.lr), momentum = static_cast<T>(s.momentum);
  if (v_out == nullptr) return launch_update(stream, sgd_rule<T>{lr}, s.gradient, m);
  if (s.nesterov) return launch_update(stream, momentum_rule<T, true>{lr, momentum}, s.gradient, m);
  launch_update(stream, momentum_rule<T, false>{lr, momentum}, s.gradient, m);
}

template <class T>
void adaptive_update(cudaStream_t stream, const adaptive_spec& s, std::int64_t n, const T* w, const T* g,
                     const std::array<const T*, 3>& states, T* w_out, const std::array<T*, 3>& states_out) {
  if (n == 0) return;
  const update_memory<T> m{n, w, g, states, w_out, states_out};
  switch (s.rule) {
    case adaptive_rule::adagrad: return launch_update(stream, adagrad_rule<T>(s), s.gradient, m);
    case adaptive_rule::rmsprop: return launch_rmsprop(stream, s, m);
    case adaptive_rule::adadelta: return launch_update(stream, adadelta_rule<T>(s), s.gradient, m);
    case adaptive_rule::adam: return launch_update(stream, adam_rule<T>{adam_numbers<T>(s)}, s.gradient, m);
    case adaptive_rule::adamax: return launch_update(stream, adamax_rule<T>{adam_numbers<T>(s)}, s.gradient, m);
  }
}

#define TROUPE_UPDATE_KERNELS(T)                                                                               \
  template void sgd_update(cudaStream_t, const sgd_spec&, std::int64_t, const T*, const T*, const T*, T*, T*); \
  template void adaptive_update(cudaStream_t, const adaptive_spec&, std::int64_t, const T*, const T*,          \
                                const std::array<const T*, 3>&, T*, const std::array<T*, 3>&);
TROUPE_UPDATE_KERNELS(float)
TROUPE_UPDATE_KERNELS(double)
#undef TROUPE_UPDATE_KERNELS

}  // namespace troupe::cuda::kernels
