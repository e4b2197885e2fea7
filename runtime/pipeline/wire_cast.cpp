#include "runtime/pipeline/wire_cast.hpp"

#include <cmath>
#include <cstring>
#include <limits>

#include "ops/bf16.hpp"
#include "ops/converted.hpp"
#include "ops/device.hpp"

namespace troupe {
namespace {

template <class T>
void write_bf16(const T* x, std::int64_t n, std::uint16_t* to) {
  for (std::int64_t i = 0; i < n; ++i) to[i] = to_bf16(static_cast<float>(x[i])).bits;
}

template <class T>
void write_int8(const T* x, std::int64_t n, std::int8_t* to) {
  float most = 0;
  bool finite = true;
  for (std::int64_t i = 0; i < n; ++i) {
    const auto v = static_cast<float>(x[i]);
    finite = finite && std::isfinite(v);
    most = std::max(most, std::abs(v));
  }
  const float scale = finite ? most / 127.0F : std::numeric_limits<float>::quiet_NaN();
  for (std::int64_t i = 0; i < n; ++i)
    to[i] = finite && most > 0 ? static_cast<std::int8_t>(std::lrint(127.0F * (static_cast<float>(x[i]) / most))) : std::int8_t{0};
  std::memcpy(to + n, &scale, sizeof scale);
}

template <class T>
void write(const tensor& from, wire_format f, tensor& to) {
  const auto rows = from.dims()[0], each = from.dims().count_from(1);
  if (f == wire_format::bf16) return write_bf16(from.data<T>(), from.count(), static_cast<std::uint16_t*>(to.raw_mutable()));
  for (std::int64_t r = 0; r < rows; ++r)
    write_int8(from.data<T>() + r * each, each,
               static_cast<std::int8_t*>(to.raw_mutable()) + r * (each + static_cast<std::int64_t>(sizeof(float))));
}

template <class T>
void read(const tensor& from, wire_format f, tensor& to) {
  auto* out = static_cast<T*>(to.raw_mutable());
  const auto rows = to.dims()[0], each = to.dims().count_from(1);
  if (f == wire_format::bf16) {
    const auto* in = static_cast<const std::uint16_t*>(from.raw());
    for (std::int64_t i = 0; i < to.count(); ++i) out[i] = static_cast<T>(to_float(bf16{in[i]}));
    return;
  }
  for (std::int64_t r = 0; r < rows; ++r) {
    const auto* in = static_cast<const std::int8_t*>(from.raw()) + r * (each + static_cast<std::int64_t>(sizeof(float)));
    float scale = 0;
    std::memcpy(&scale, in + each, sizeof scale);
    for (std::int64_t i = 0; i < each; ++i) out[r * each + i] = static_cast<T>(static_cast<float>(in[i]) * scale);
  }
}

}  // namespace

tensor declare_for_wire(const shape& s, dtype t, wire_format f) { return tensor::declare(wire_dims(f, s), wire_dtype(f, t)); }

tensor to_wire(device& d, const tensor& from, wire_format f) {
  if (f == wire_format::as_is || !from) return from;
  if (from.type() == wire_dtype(f, from.type())) return from;  // bf16 as it is
  if (from.type() == dtype::bf16) return to_wire(d, converted_to(d, from, dtype::f32), f);
  auto to = declare_for_wire(from.dims(), from.type(), f);
  to.back(d);
  from.type() == dtype::f64 ? write<double>(from, f, to) : write<float>(from, f, to);
  return to;
}

tensor from_wire(device& d, const tensor& from, wire_format f, const shape& s, dtype t) {
  if (f == wire_format::as_is || !from) return from;
  if (f == wire_format::bf16 && t == dtype::bf16) return from.reshaped(s);
  auto to = tensor::allocate(d, s, t);
  if (t == dtype::bf16) {
    d.copy(from_wire(d, from, f, s, dtype::f32), to);
    return to;
  }
  t == dtype::f64 ? read<double>(from, f, to) : read<float>(from, f, to);
  return to;
}

}  // namespace troupe
