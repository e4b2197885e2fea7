#include "runtime/exchange/arithmetic.hpp"

#include <cstring>
#include <new>

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
