// The kernels of ops/cuda/kernels/update.hpp give the bits of the CPU device.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "ops/cuda/check.hpp"
#include "ops/cuda/kernels/update.hpp"
#include "ops/device.hpp"
#include "tests/vgpu/against_cpu.hpp"
#include "tests/vgpu/device_user.hpp"

namespace troupe::vgpu {
namespace {

using cuda::check;
namespace kernels = cuda::kernels;

// Numbers between -2 and 2, or between 0 and 2 if `positive`. From 40 elements on, with special
// values.
template <class T>
std::vector<T> update_numbers(std::int64_t n, int salt, bool positive) {
  using limits = std::numeric_limits<T>;
  std::vector<T> v(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < v.size(); ++i) {
    v[i] = static_cast<T>((i + static_cast<std::size_t>(salt)) * 7919 % 1009) / T(252) - T(2);
    if (positive) v[i] = std::abs(v[i]);
  }
  const T special[] = {T(0), T(-0.0), limits::quiet_NaN(), limits::infinity(), limits::denorm_min(), limits::max()};
  for (std::size_t k = 0; n >= 40 && k < 6; ++k) v[k * 6 + static_cast<std::size_t>(salt) % 6] = special[k];
  return v;
}

// Inputs of an update, or its results.
template <class T>
struct update_values {
  std::vector<T> w, g, states[3];
};
template <class T>
update_values<T> update_input(std::int64_t n, bool signed_second, bool signed_first) {
  return {update_numbers<T>(n, 0, false),
          update_numbers<T>(n, 1, false),
          {update_numbers<T>(n, 2, !signed_first), update_numbers<T>(n, 3, !signed_second), update_numbers<T>(n, 4, false)}};
}

// The results of `run(device, w, g, states, w_out, states_out)` on the CPU.
template <class T, class F>
update_values<T> updated_on_cpu(const update_values<T>& in, std::size_t states, F run) {
  const auto d = make_cpu_device("baseline");
  const auto n = static_cast<std::int64_t>(in.w.size());
  if (n == 0) return in;
  const auto uploaded = [&](const std::vector<T>& v) {
    auto t = tensor::allocate(*d, {n}, dtype_of<T>);
    d->upload(v.data(), t);
    return t;
  };
  const auto w = uploaded(in.w), g = uploaded(in.g);
  auto w_out = uploaded(in.g);
  tensors from, to;
  for (std::size_t k = 0; k < states; ++k) from.push_back(uploaded(in.states[k])), to.push_back(uploaded(in.g));
  run(*d, w, g, from, w_out, to);
  auto out = in;
  d->download(w_out, out.w.data());
  for (std::size_t k = 0; k < states; ++k) d->download(to[k], out.states[k].data());
  return out;
}

// Compares `run(stream, n, w, g, states, w_out, states_out)` with the results of the CPU, with
// separate outputs, in place, and with the new weights in the memory of the gradient.
template <class T, class F>
void expect_update(const update_values<T>& in, std::size_t states, const update_values<T>& wanted, F run) {
  const auto size = in.w.size();
  for (const int place : {0, 1, 2}) {
    SCOPED_TRACE(testing::Message() << "outputs " << place << ", elements " << size);
    device_user u;
    T *w = u.filled(in.w), *g = u.filled(in.g), *w_out = place == 0 ? u.memory<T>(size) : place == 1 ? w : g;
    std::array<const T*, 3> from{};
    std::array<T*, 3> to{};
    for (std::size_t k = 0; k < states; ++k) {
      T* p = u.filled(in.states[k]);
      from[k] = p, to[k] = place == 0 ? u.memory<T>(size) : p;
    }
    run(u.stream, static_cast<std::int64_t>(size), w, g, from, w_out, to);
    EXPECT_TRUE(same_bits(u.read(w_out, size), wanted.w));
    for (std::size_t k = 0; k < states; ++k) EXPECT_TRUE(same_bits(u.read(to[k], size), wanted.states[k])) << "state " << k;
  }
}

template <class T>
void expect_sgd(const sgd_spec& s, std::int64_t n) {
  const std::size_t states = s.momentum != 0 ? 1 : 0;
  const auto in = update_input<T>(n, true, true);
  const auto wanted =
      updated_on_cpu(in, states, [&](device& d, const tensor& w, const tensor& g, const tensors& from, tensor& w_out, tensors& to) {
        tensor none;
        d.sgd_update(s, w, g, states > 0 ? from[0] : none, w_out, states > 0 ? to[0] : none);
      });
  expect_update(in, states, wanted, [&](auto stream, auto count, const T* w, const T* g, auto& from, T* w_out, auto& to) {
    kernels::sgd_update(stream, s, count, w, g, from[0], w_out, to[0]);
  });
}

template <class T>
void expect_adaptive(const adaptive_spec& s, std::int64_t n) {
  const bool rmsprop = s.rule == adaptive_rule::rmsprop;
  const std::size_t states = rmsprop                            ? 1 + (s.centered ? 1u : 0u) + (s.momentum != 0 ? 1u : 0u)
                             : s.rule == adaptive_rule::adagrad ? 1
                                                                : 2;
  const auto in = update_input<T>(n, rmsprop, s.rule == adaptive_rule::adam || s.rule == adaptive_rule::adamax);
  const auto wanted =
      updated_on_cpu(in, states, [&](device& d, const tensor& w, const tensor& g, const tensors& from, tensor& w_out, tensors& to) {
        d.adaptive_update(s, w, g, from, w_out, to);
      });
  expect_update(in, states, wanted, [&](auto stream, auto count, const T* w, const T* g, auto& from, T* w_out, auto& to) {
    kernels::adaptive_update(stream, s, count, w, g, from, w_out, to);
  });
}

constexpr gradient_spec plain_gradient{}, full_gradient{.scale = 0.3, .limit = 0.41, .decay = 1e-3},
    l1_gradient{.scale = 0.3, .decay_l1 = 2e-3};

// Calls test(n, gradient) with a new virtual GPU for each seed. There must be no findings.
template <class F>
void for_updates(F test) {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    for (const std::int64_t n : {0, 1, 31, 256, 1001}) {
      for (const auto& gradient : {plain_gradient, full_gradient, l1_gradient}) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        reset(options{.seed = seed});
        test(n, gradient);
        const auto list = findings();
        ASSERT_TRUE(list.empty()) << list[0];
      }
    }
  }
}

template <class T>
class update_kernels : public testing::Test {};
using update_types = testing::Types<float, double>;
TYPED_TEST_SUITE(update_kernels, update_types);

TYPED_TEST(update_kernels, sgd_has_the_bits_of_the_cpu) {
  for_updates([](std::int64_t n, const gradient_spec& gradient) {
    expect_sgd<TypeParam>({.gradient = gradient, .lr = 0.013}, n);
    expect_sgd<TypeParam>({.gradient = gradient, .lr = 0.013, .momentum = 0.9}, n);
    expect_sgd<TypeParam>({.gradient = gradient, .lr = 0.013, .momentum = 0.9, .nesterov = true}, n);
  });
}

TYPED_TEST(update_kernels, adagrad_has_the_bits_of_the_cpu) {
  for_updates([](std::int64_t n, const gradient_spec& gradient) {
    expect_adaptive<TypeParam>({.rule = adaptive_rule::adagrad, .gradient = gradient, .lr = 0.013, .eps = 1e-8, .first = 0.1}, n);
  });
}

TYPED_TEST(update_kernels, rmsprop_has_the_bits_of_the_cpu_with_every_set_of_states) {
  for_updates([](std::int64_t n, const gradient_spec& gradient) {
    for (const double momentum : {0.0, 0.9}) {
      for (const bool centered : {false, true}) {
        expect_adaptive<TypeParam>({.rule = adaptive_rule::rmsprop,
                                    .gradient = gradient,
                                    .lr = 0.013,
                                    .eps = 1e-8,
                                    .keep_2 = 0.99,
                                    .momentum = momentum,
                                    .centered = centered},
                                   n);
      }
    }
  });
}

TYPED_TEST(update_kernels, adadelta_has_the_bits_of_the_cpu) {
  for_updates([](std::int64_t n, const gradient_spec& gradient) {
    expect_adaptive<TypeParam>({.rule = adaptive_rule::adadelta, .gradient = gradient, .lr = 1.0, .eps = 1e-6, .keep_2 = 0.9}, n);
  });
}

TYPED_TEST(update_kernels, adam_and_adamax_have_the_bits_of_the_cpu) {
  for_updates([](std::int64_t n, const gradient_spec& gradient) {
    for (const auto rule : {adaptive_rule::adam, adaptive_rule::adamax}) {
      expect_adaptive<TypeParam>(
          {.rule = rule, .gradient = gradient, .lr = 0.013, .eps = 1e-8, .keep_1 = 0.9, .keep_2 = 0.999, .deviation = 0.37}, n);
    }
    expect_adaptive<TypeParam>({.rule = adaptive_rule::adam,
                                .gradient = gradient,
                                .lr = 0.013,
                                .eps = 1e-8,
                                .keep_1 = 0.9,
                                .keep_2 = 0.999,
                                .deviation = 0.37,
                                .keep_weight = 0.97},
                               n);
  });
}

// One pass of the largest grid covers 2048 blocks of 256 elements.
TYPED_TEST(update_kernels, results_are_complete_when_threads_repeat) {
  constexpr std::int64_t n = 2048 * 256 + 333;
  reset(options{.seed = 2});
  expect_sgd<TypeParam>({.gradient = full_gradient, .lr = 0.013, .momentum = 0.9, .nesterov = true}, n);
  const auto list = findings();
  ASSERT_TRUE(list.empty()) << list[0];
}

}  // namespace
}  // namespace troupe::vgpu
