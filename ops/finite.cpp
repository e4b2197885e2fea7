#include "ops/finite.hpp"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <utility>

#include "ops/device.hpp"

namespace troupe {
namespace {

// A number is finite unless all bits of its exponent are set. Works in blocks, so that the compiler
// vectorises the check and a large tensor returns early.
template <class Bits>
bool finite_bits(const void* from, std::int64_t count, Bits exponent) {
  constexpr std::int64_t block = 4096;
  const auto* p = static_cast<const std::uint8_t*>(from);
  for (std::int64_t done = 0; done < count; done += block) {
    const auto n = count - done < block ? count - done : block;
    Bits bad = 0;
    for (std::int64_t i = 0; i < n; ++i, p += sizeof(Bits)) {
      Bits v;
      std::memcpy(&v, p, sizeof v);
      bad = static_cast<Bits>(bad | static_cast<Bits>((v & exponent) == exponent));
    }
    if (bad != 0) return false;
  }
  return true;
}

}  // namespace

bool all_finite(const tensor& t) {
  if (!t.backed()) return true;
  switch (t.type()) {
    case dtype::f32: return finite_bits<std::uint32_t>(t.raw(), t.count(), 0x7f800000u);
    case dtype::f64: return finite_bits<std::uint64_t>(t.raw(), t.count(), 0x7ff0000000000000u);
    case dtype::bf16: return finite_bits<std::uint16_t>(t.raw(), t.count(), 0x7f80u);
    default: return true;
  }
}

void look_for_not_finite(device& d, const tensor& t, std::function<void()> otherwise) {
  if (!t.backed()) return;
  if (&d.host() == &d) {
    if (!all_finite(t)) otherwise();
    return;
  }
  tensor sum = tensor::allocate(d, shape{1}, dtype::f64);
  d.sum_squares(t, sum);
  d.later(sum, [then = std::move(otherwise)](double v) {
    if (!std::isfinite(v)) then();
  });
}

}  // namespace troupe
