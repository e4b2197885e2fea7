// Codecs of gradients: they encode n values in fewer bytes, and decode them. Sizes:
// spec/codec_spec.hpp.
//
//   fp16, bf16  the nearest value, ties to even; too large a value becomes the largest finite one
//   int8        for each chunk of 1024 values: m as f32, the largest magnitude of the chunk, then
//               q = round(127 x / m), one byte per value; decoded as m q / 127
//   e3m0        for each chunk of 256 values: m as f32, then four bits per value, a sign and three
//               bits of exponent c: the nearest of 0 and m 2^(c-7), c = 1..7; two values per byte,
//               the first in the low four bits (Streaming DiLoCo, arXiv 2501.18512)
//   onebit      for each chunk of 1024 values: the mean of the values >= 0 and the mean of the
//               others, as f32, then one bit per value (1: negative), the first one lowest; a value
//               is decoded as the mean of its sign (Seide et al. 2014)
//   topk        the k largest magnitudes, of equal ones the first: k, then k indices, then k
//               values; if all values take fewer bytes: 2^32 - 1, then all n
//   threshold   the values of at least that magnitude, in the format of topk
//
// Error feedback: the value that is encoded is a = sum + residual, and the residual becomes a -
// decoded. So sent + new residual = sum + old residual, to the bit for all codecs but onebit (its
// means round; it is exact on dyadic numbers with enough spare bits). A value that is not finite is
// decoded as itself, or all values of its chunk as NaN, so that the receiver detects it; the
// residual then stays unchanged, since the step will be skipped.
//
// Little-endian. decode() validates the bytes that it gets. Pure functions on host memory; any
// thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/spec/codec_spec.hpp"

namespace troupe {

// T: float or double. Returns encoded_bytes() bytes; for threshold at most that many. Updates
// `residual`.
template <class T>
std::vector<std::byte> encode(const codec_spec& s, const T* sum, T* residual, std::int64_t n);
// Returns false if the bytes are not an encoding of n values; the content of `to` is then
// unspecified.
template <class T>
bool decode(const codec_spec& s, const std::byte* from, std::size_t bytes, T* to, std::int64_t n);

}  // namespace troupe
