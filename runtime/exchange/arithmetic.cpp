#include "runtime/exchange/arithmetic.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <new>
#include <vector>

#include "ops/tree/packet_tree.hpp"

namespace troupe::exchange {
namespace {

template <class T>
T* as(void* p) {
  return static_cast<T*>(p);
}

// Calls f with a null pointer of the element's type, to choose the instance.
template <class F>
void with(element e, F f) {
  if (e == element::f32)
    f(static_cast<float*>(nullptr));
  else
    f(static_cast<double*>(nullptr));
}

constexpr std::size_t few = 1024;  // elements that are added at a time: what they need stays in the first cache

template <class T>
void add(T* out, const T* left, const T* right, std::size_t count) {
#pragma GCC ivdep
  for (std::size_t k = 0; k < count; ++k) out[k] = left[k] + right[k];
}

// `scratch` has room for `few` elements for each level of the tree.
template <class T>
void sum(T* out, const T* const* in, std::size_t n, std::size_t count, T* scratch) {
  if (n == 1) return void(std::memcpy(out, in[0], count * sizeof(T)));
  if (n == 2) return add(out, in[0], in[1], count);
  const auto left = static_cast<std::size_t>(left_of(static_cast<std::int64_t>(n)));
  sum(out, in, left, count, scratch + few);
  sum(scratch, in + left, n - left, count, scratch + few);
  add(out, out, scratch, count);
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

void fold(element e, std::span<const block> values, std::uint64_t count) {
  with(e, [&]<class T>(T*) {
    join_all(values.size(), [&](std::size_t into, std::size_t from) {
      T* left = as<T>(values[into].get());
      const T* right = as<T>(values[from].get());
      for (std::uint64_t k = 0; k < count; ++k) left[k] += right[k];
    });
  });
}

void fold_into(element e, std::byte* out, std::span<const std::byte* const> in, std::uint64_t count, std::uint32_t by) {
  with(e, [&]<class T>(T*) {
    const std::size_t levels = static_cast<std::size_t>(std::bit_width(in.size())) + 1;
    std::vector<T> room((levels + 1) * few);
    std::vector<const T*> at(in.size());
    for (std::uint64_t from = 0; from < count; from += few) {
      const auto n = static_cast<std::size_t>(std::min<std::uint64_t>(few, count - from));
      for (std::size_t r = 0; r < in.size(); ++r) at[r] = reinterpret_cast<const T*>(in[r]) + from;
      sum(room.data(), at.data(), at.size(), n, room.data() + few);
      T* const to = reinterpret_cast<T*>(out) + from;
      if (by == 1)
        std::memcpy(to, room.data(), n * sizeof(T));
      else
        for (std::size_t k = 0; k < n; ++k) to[k] = room[k] / static_cast<T>(by);
    }
  });
}

void divide(element e, std::byte* values, std::uint64_t count, std::uint32_t by) {
  with(e, [&]<class T>(T*) {
    T* v = as<T>(values);
    for (std::uint64_t k = 0; k < count; ++k) v[k] /= static_cast<T>(by);
  });
}

void pull(element e, std::byte* worker, std::byte* centre, std::uint64_t count, double alpha) {
  with(e, [&]<class T>(T*) {
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
  with(e, [&]<class T>(T*) {
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
  with(e, [&]<class T>(T*) {
    T* w = as<T>(worker);
    const T* d = reinterpret_cast<const T*>(difference);
    for (std::uint64_t k = 0; k < count; ++k) w[k] -= d[k];
  });
}

}  // namespace troupe::exchange
