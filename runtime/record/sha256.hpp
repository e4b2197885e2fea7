// SHA-256 (FIPS 180-4), with the CPU's SHA instructions if it has them. Implemented here because
// the core does not link OpenSSL.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "ops/tensor.hpp"

namespace troupe {

class sha256 {
 public:
  using digest = std::array<std::uint8_t, 32>;

  void update(const void* data, std::size_t bytes);
  digest finish();  // no update() may follow

 private:
  std::array<std::uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                         0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<std::uint8_t, 64> block_{};
  std::uint64_t bytes_ = 0;
};

std::string hex_of(const std::uint8_t* data, std::size_t bytes);
std::string sha256_hex(const void* data, std::size_t bytes);

// Hash of the raw little-endian bytes of the tensors in the given order, without names. f64 is
// rounded to f32 first, so that a job's hash does not depend on the precision in which it stores
// weights. Tensors without storage add nothing.
std::string weights_sha256(const std::vector<std::pair<std::string, tensor>>& named);

namespace detail {
// The two implementations for whole blocks, for the test that compares them.
void sha256_blocks_portable(std::array<std::uint32_t, 8>& state, const std::uint8_t* p, std::size_t blocks);
bool sha256_has_hardware();
void sha256_blocks_hardware(std::array<std::uint32_t, 8>& state, const std::uint8_t* p, std::size_t blocks);
}  // namespace detail

}  // namespace troupe
