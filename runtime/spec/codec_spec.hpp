// How gradients are encoded between workers and shards (`compress` of [train.exchange] and of a
// layer): unchanged, or in fewer bytes by a lossy codec. The worker keeps the encoding error and
// adds it to the gradient of the next step (error feedback: Seide et al. 2014, "1-Bit Stochastic
// Gradient Descent", equations 1 and 2). The codecs: reduce/codec.hpp.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <string_view>

#include "ops/dtype.hpp"

namespace troupe {

enum class codec_kind : std::uint8_t { none, fp16, bf16, int8, e3m0, onebit, topk, threshold };

struct codec_spec {
  codec_kind kind = codec_kind::none;
  double fraction = 0.01;    // topk: fraction of the values that is sent; at least one value
  double threshold = 0.001;  // threshold: values of at least this magnitude are sent
  explicit operator bool() const { return kind != codec_kind::none; }
  bool operator==(const codec_spec&) const = default;
};

inline constexpr const char* codec_words[] = {"none", "fp16", "bf16", "int8", "e3m0", "onebit", "topk", "threshold"};
constexpr codec_kind codec_kind_of(std::string_view name) {
  for (std::size_t i = 0; i < std::size(codec_words); ++i)
    if (name == codec_words[i]) return static_cast<codec_kind>(i);
  return codec_kind::none;
}
constexpr const char* name_of(codec_kind k) { return codec_words[static_cast<std::size_t>(k)]; }

// Number of values that share a scale. The last chunk of a block may be shorter.
constexpr std::int64_t codec_chunk(codec_kind k) { return k == codec_kind::e3m0 ? 256 : 1024; }

// topk: number of values sent out of n.
inline std::int64_t values_sent(const codec_spec& s, std::int64_t n) {
  return std::clamp<std::int64_t>(static_cast<std::int64_t>(std::ceil(s.fraction * static_cast<double>(n))), 1,
                                  std::max<std::int64_t>(n, 1));
}

// Bytes of n values of type t as codec.cpp encodes them. For `threshold`, whose size depends on the
// values, the maximum.
inline std::int64_t encoded_bytes(const codec_spec& s, std::int64_t n, dtype t) {
  const auto size = static_cast<std::int64_t>(size_of(t));
  const auto chunks = (n + codec_chunk(s.kind) - 1) / codec_chunk(s.kind);
  const auto scale = std::int64_t{sizeof(float)}, index = std::int64_t{sizeof(std::uint32_t)};
  switch (s.kind) {
    case codec_kind::none: return n * size;
    case codec_kind::fp16:
    case codec_kind::bf16: return n * 2;
    case codec_kind::int8: return n + chunks * scale;
    case codec_kind::e3m0: return (n + 1) / 2 + chunks * scale;
    case codec_kind::onebit: return (n + 7) / 8 + chunks * 2 * scale;
    case codec_kind::topk: return index + std::min(values_sent(s, n) * (index + size), n * size);
    case codec_kind::threshold: return index + n * size;
  }
  return n * size;
}

}  // namespace troupe
