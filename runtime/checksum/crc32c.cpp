#include "runtime/checksum/crc32c.hpp"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace troupe {
namespace {

constexpr std::uint32_t polynomial = 0x82f63b78;

using slice_tables = std::array<std::array<std::uint32_t, 256>, 8>;

constexpr slice_tables make_slices() {
  slice_tables t{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t c = i;
    for (int k = 0; k < 8; ++k) c = (c >> 1) ^ ((c & 1) != 0 ? polynomial : 0);
    t[0][i] = c;
  }
  for (std::size_t s = 1; s < 8; ++s)
    for (std::size_t i = 0; i < 256; ++i) t[s][i] = (t[s - 1][i] >> 8) ^ t[0][t[s - 1][i] & 0xff];
  return t;
}
constexpr slice_tables slices = make_slices();

std::uint64_t load64(const unsigned char* p) {
  std::uint64_t v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

#if defined(__x86_64__)
// The crc32 instruction has a latency of three cycles and a throughput of one, so three independent
// streams keep it busy. The streams are joined by shifting a CRC over `stride` zero bytes. That is
// linear in the CRC, so four tables of 256 entries suffice.
constexpr std::size_t stride = 1024;
using shift_tables = std::array<std::array<std::uint32_t, 256>, 4>;

constexpr shift_tables make_shift() {
  std::array<std::uint32_t, 32> bit{};  // where each single bit ends up
  for (std::size_t b = 0; b < 32; ++b) {
    std::uint32_t c = std::uint32_t{1} << b;
    for (std::size_t i = 0; i < stride; ++i) c = (c >> 8) ^ slices[0][c & 0xff];
    bit[b] = c;
  }
  shift_tables t{};
  for (std::size_t k = 0; k < 4; ++k)
    for (std::size_t v = 0; v < 256; ++v)
      for (std::size_t b = 0; b < 8; ++b)
        if (((v >> b) & 1) != 0) t[k][v] ^= bit[8 * k + b];
  return t;
}

std::uint32_t shift(const shift_tables& t, std::uint32_t c) {
  return t[0][c & 0xff] ^ t[1][(c >> 8) & 0xff] ^ t[2][(c >> 16) & 0xff] ^ t[3][c >> 24];
}
#endif

}  // namespace

std::uint32_t crc32c_software(std::uint32_t previous, const void* data, std::size_t bytes) {
  const auto* p = static_cast<const unsigned char*>(data);
  std::uint32_t c = ~previous;
  for (; bytes >= 8; p += 8, bytes -= 8) {
    const std::uint64_t v = load64(p) ^ c;
    c = 0;
    for (std::size_t k = 0; k < 8; ++k) c ^= slices[7 - k][(v >> (8 * k)) & 0xff];
  }
  for (; bytes > 0; ++p, --bytes) c = (c >> 8) ^ slices[0][(c ^ *p) & 0xff];
  return ~c;
}

#if defined(__x86_64__)
bool has_hardware_crc32c() {
  static const bool has = __builtin_cpu_supports("sse4.2") != 0;
  return has;
}

__attribute__((target("sse4.2"))) std::uint32_t crc32c_hardware(std::uint32_t previous, const void* data, std::size_t bytes) {
  static const shift_tables over_stride = make_shift();
  const auto* p = static_cast<const unsigned char*>(data);
  std::uint64_t c = ~previous;
  while (bytes >= 3 * stride) {
    std::uint64_t c1 = 0, c2 = 0;
    for (std::size_t i = 0; i < stride; i += 8) {
      c = _mm_crc32_u64(c, load64(p + i));
      c1 = _mm_crc32_u64(c1, load64(p + stride + i));
      c2 = _mm_crc32_u64(c2, load64(p + 2 * stride + i));
    }
    c = shift(over_stride, static_cast<std::uint32_t>(c)) ^ c1;
    c = shift(over_stride, static_cast<std::uint32_t>(c)) ^ c2;
    p += 3 * stride;
    bytes -= 3 * stride;
  }
  for (; bytes >= 8; p += 8, bytes -= 8) c = _mm_crc32_u64(c, load64(p));
  auto c32 = static_cast<std::uint32_t>(c);
  for (; bytes > 0; ++p, --bytes) c32 = _mm_crc32_u8(c32, *p);
  return ~c32;
}
#else
bool has_hardware_crc32c() { return false; }
std::uint32_t crc32c_hardware(std::uint32_t previous, const void* data, std::size_t bytes) {
  return crc32c_software(previous, data, bytes);
}
#endif

std::uint32_t crc32c(std::uint32_t previous, const void* data, std::size_t bytes) {
  return has_hardware_crc32c() ? crc32c_hardware(previous, data, bytes) : crc32c_software(previous, data, bytes);
}

}  // namespace troupe
