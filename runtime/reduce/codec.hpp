// Codecs of gradients: n values in fewer bytes, and back. Sizes: spec/codec_spec.hpp.
//
//   fp16, bf16  to the nearest, ties to even; what is too large becomes the largest number that there is
//   int8        q = round(127 x / m), m the largest magnitude of a chunk of 1024; m as f32 before each chunk's bytes
//   e3m0        a sign and three bits of exponent: 0 or m 2^(c-7), c = 1..7, to the nearest, m of a chunk of 256 (Streaming DiLoCo,
//               arXiv 2501.18512); m as f32 before each chunk, two values a byte, the first one in the lower half
//   onebit      the sign; it stands for the mean of the chunk's (1024) values of that sign (Seide et al. 2014): the mean of those >= 0, the
//               mean of the others, then a bit a value (1: negative), the first one lowest
//   topk        the k largest magnitudes, of equal ones the first: k, then k indices, then k values. Where all values take fewer bytes:
//               2^32 - 1, then all n
//   threshold   those of at least that magnitude, written like topk
//
// Error feedback: what is encoded is a = sum + residual, and the residual becomes a - decoded: sent
// + new residual = sum + old one, to the bit for all but onebit (whose means round; exact on dyadic
// numbers that have room). Where a value is not finite all that is decoded is NaN or the value
// itself, so that whoever takes it sees it; the residual stays as it was, for the step will be left
// out.
//
// Little-endian. decode() believes nothing. Pure functions on host memory; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/spec/codec_spec.hpp"

namespace troupe {

// T: float or double. At most encoded_bytes(); of all codecs but threshold just so many.
template <class T>
std::vector<std::byte> encode(const codec_spec& s, const T* sum, T* residual, std::int64_t n);
// False: these bytes are not the encoding of n values; `to` may then hold anything.
template <class T>
bool decode(const codec_spec& s, const std::byte* from, std::size_t bytes, T* to, std::int64_t n);

}  // namespace troupe
