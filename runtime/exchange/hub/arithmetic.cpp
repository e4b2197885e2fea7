#include "runtime/exchange/hub/arithmetic.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <new>
#include <type_traits>
#include <vector>

#include "ops/bf16.hpp"
#include "ops/tree/packet_tree.hpp"

namespace troupe::exchange {
namespace {

template <class T>
T* as(void* p) {
  return static_cast<T*>(p);
}

// Calls f with a null pointer of the element's type, which selects the instance.
template <class F>
void with(element e, F f) {
  switch (e) {
    case element::f32: return f(static_cast<float*>(nullptr));
    case element::f64: return f(static_cast<double*>(nullptr));
    case element::bf16: return f(static_cast<bf16*>(nullptr));
    case element::i32: return f(static_cast<std::int32_t*>(nullptr));
    case element::i64: return f(static_cast<std::int64_t*>(nullptr));
  }
}
template <class F>
void with_lawful(element e, F f) {
  if (e == element::f32)
    f(static_cast<float*>(nullptr));
  else
    f(static_cast<double*>(nullptr));
}

// The type in which two elements are combined. Integers become unsigned, so that overflow wraps.
template <class T>
auto widened(T x) {
  if constexpr (std::is_same_v<T, bf16>)
    return to_float(x);
  else if constexpr (std::is_integral_v<T>)
    return static_cast<std::make_unsigned_t<T>>(x);
  else
    return x;
}
template <class T, class W>
T narrowed(W x) {
  if constexpr (std::is_same_v<T, bf16>)
    return to_bf16(x);
  else
    return static_cast<T>(x);
}

struct plus {
  template <class T>
  static T join(T a, T b) {
    return narrowed<T>(widened(a) + widened(b));
  }
};
struct times {
  template <class T>
  static T join(T a, T b) {
    return narrowed<T>(widened(a) * widened(b));
  }
};
template <bool Least>
struct pick {
  template <class T>
  static T join(T a, T b) {
    if constexpr (std::is_same_v<T, bf16>)
      return to_bf16(join(to_float(a), to_float(b)));
    else if constexpr (std::is_floating_point_v<T>)
      return std::isnan(a) || (Least ? a < b : a > b) ? a : b;
    else
      return Least ? std::min(a, b) : std::max(a, b);
  }
};

// Calls f with the operation that combines two elements.
template <class F>
void joined_by(reduction how, F f) {
  switch (how) {
    case reduction::sum:
    case reduction::mean: return f(plus{});
    case reduction::min: return f(pick<true>{});
    case reduction::max: return f(pick<false>{});
    case reduction::product: return f(times{});
  }
}

constexpr std::size_t few = 1024;  // elements that are combined at a time, so that the working set fits the L1 cache

template <class J, class T>
void join(T* out, const T* left, const T* right, std::size_t count) {
#pragma GCC ivdep
  for (std::size_t k = 0; k < count; ++k) out[k] = J::join(left[k], right[k]);
}

// `scratch` has space for `few` elements for each level of the tree.
template <class J, class T>
void tree(T* out, const T* const* in, std::size_t n, std::size_t count, T* scratch) {
  if (n == 1) return void(std::memcpy(out, in[0], count * sizeof(T)));
  if (n == 2) return join<J>(out, in[0], in[1], count);
  const auto left = static_cast<std::size_t>(left_of(static_cast<std::int64_t>(n)));
  tree<J>(out, in, left, count, scratch + few);
  tree<J>(scratch, in + left, n - left, count, scratch + few);
  join<J>(out, out, scratch, count);
}

template <class T>
void divide([[maybe_unused]] T* to, [[maybe_unused]] const T* from, [[maybe_unused]] std::size_t count,
            [[maybe_unused]] std::size_t by) {
  if constexpr (std::is_floating_point_v<T>)
    for (std::size_t k = 0; k < count; ++k) to[k] = from[k] / static_cast<T>(by);
  else if constexpr (std::is_same_v<T, bf16>)
    for (std::size_t k = 0; k < count; ++k) to[k] = to_bf16(to_float(from[k]) / static_cast<float>(by));
}

}  // namespace

block make_block(std::uint64_t bytes) {
  return {static_cast<std::byte*>(::operator new(bytes)), [](std::byte* p) { ::operator delete(p); }};
}

block copy_of(const block& b, std::uint64_t bytes) {
  auto out = make_block(bytes);
  std::memcpy(out.get(), b.get(), bytes);
  return out;
}

void fold(element e, reduction how, std::span<const block> values, std::uint64_t count) {
  std::vector<const std::byte*> in;
  for (const auto& v : values) in.push_back(v.get());
  fold_into(e, how, values[0].get(), in, count);
}

void fold_into(element e, reduction how, std::byte* out, std::span<const std::byte* const> in, std::uint64_t count) {
  with(e, [&]<class T>(T*) {
    joined_by(how, [&]<class J>(J) {
      const std::size_t levels = static_cast<std::size_t>(std::bit_width(in.size())) + 1;
      std::vector<T> room((levels + 1) * few);
      std::vector<const T*> at(in.size());
      for (std::uint64_t from = 0; from < count; from += few) {
        const auto n = static_cast<std::size_t>(std::min<std::uint64_t>(few, count - from));
        for (std::size_t r = 0; r < in.size(); ++r) at[r] = reinterpret_cast<const T*>(in[r]) + from;
        tree<J>(room.data(), at.data(), at.size(), n, room.data() + few);
        T* const to = reinterpret_cast<T*>(out) + from;
        if (how == reduction::mean)
          divide(to, room.data(), n, in.size());
        else
          std::memcpy(to, room.data(), n * sizeof(T));
      }
    });
  });
}

void add(element e, std::byte* centre, const std::byte* difference, std::uint64_t count) {
  with_lawful(e, [&]<class T>(T*) {
    T* c = as<T>(centre);
    const T* d = reinterpret_cast<const T*>(difference);
    for (std::uint64_t k = 0; k < count; ++k) c[k] += d[k];
  });
}

void pull(element e, std::byte* worker, std::byte* centre, std::uint64_t count, double alpha) {
  with_lawful(e, [&]<class T>(T*) {
    T *w = as<T>(worker), *c = as<T>(centre);
    const T a = static_cast<T>(alpha);
    for (std::uint64_t k = 0; k < count; ++k) {
      const T d = a * (w[k] - c[k]);
      c[k] += d;
      w[k] = d;
    }
  });
}

void pull_all(element e, std::span<const block> workers, std::byte* centre, std::uint64_t count, double alpha) {
  with_lawful(e, [&]<class T>(T*) {
    T* c = as<T>(centre);
    const T a = static_cast<T>(alpha);
    for (std::uint64_t k = 0; k < count; ++k) {
      T sum = 0;
      for (const auto& b : workers) {
        T& w = as<T>(b.get())[k];
        w = a * (w - c[k]);
        sum += w;
      }
      c[k] += sum;
    }
  });
}

void push(element e, void* worker, const std::byte* difference, std::uint64_t count) {
  with_lawful(e, [&]<class T>(T*) {
    T* w = as<T>(worker);
    const T* d = reinterpret_cast<const T*>(difference);
    for (std::uint64_t k = 0; k < count; ++k) w[k] -= d[k];
  });
}

}  // namespace troupe::exchange
