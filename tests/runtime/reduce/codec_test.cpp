// The codecs of gradients: sizes, rounding and loss, error feedback, and bytes that are not an
// encoding.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "runtime/reduce/codec.hpp"

namespace troupe {
namespace {

const codec_kind all_kinds[] = {codec_kind::fp16,   codec_kind::bf16, codec_kind::int8,     codec_kind::e3m0,
                                codec_kind::onebit, codec_kind::topk, codec_kind::threshold};

template <class T>
std::vector<T> normal_values(std::int64_t n, unsigned seed) {
  std::mt19937 g(seed);
  std::normal_distribution<double> d;
  std::vector<T> v(static_cast<std::size_t>(n));
  for (auto& x : v) x = static_cast<T>(d(g));
  return v;
}

template <class T>
struct sent_values {
  std::vector<std::byte> bytes;
  std::vector<T> values, residual;
};
template <class T>
sent_values<T> sent(const codec_spec& s, const std::vector<T>& sum, std::vector<T> residual = {}) {
  residual.resize(sum.size());
  sent_values<T> r;
  const auto n = static_cast<std::int64_t>(sum.size());
  r.bytes = encode(s, sum.data(), residual.data(), n);
  r.values.resize(sum.size());
  EXPECT_TRUE(decode(s, r.bytes.data(), r.bytes.size(), r.values.data(), n)) << name_of(s.kind) << " " << n;
  r.residual = std::move(residual);
  return r;
}

template <class T>
double relative_error(const std::vector<T>& of, const std::vector<T>& is) {
  double off = 0, all = 0;
  for (std::size_t i = 0; i < of.size(); ++i) {
    off += (double(of[i]) - double(is[i])) * (double(of[i]) - double(is[i]));
    all += double(of[i]) * double(of[i]);
  }
  return std::sqrt(off / all);
}

TEST(codec, encodings_have_the_size_of_encoded_bytes) {
  for (auto k : all_kinds)
    for (std::int64_t n : {1, 2, 7, 255, 256, 257, 1023, 1024, 1025, 5000}) {
      const codec_spec s{k};
      const auto most = static_cast<std::size_t>(encoded_bytes(s, n, dtype::f32));
      const auto bytes = sent(s, normal_values<float>(n, 1)).bytes.size();
      EXPECT_LE(bytes, most) << name_of(k) << " " << n;
      if (k != codec_kind::threshold) {
        EXPECT_EQ(bytes, most) << name_of(k) << " " << n;
      }
    }
  constexpr std::int64_t n = 1 << 20;
  const auto share = [](codec_spec s) { return static_cast<double>(encoded_bytes(s, n, dtype::f32)) / (4.0 * n); };
  EXPECT_EQ(share({codec_kind::fp16}), 0.5);
  EXPECT_NEAR(share({codec_kind::int8}), 0.25, 0.0025);
  EXPECT_LE(share({codec_kind::onebit}), 1.0 / 28);
  EXPECT_LE(share({codec_kind::topk}), 0.025);
  EXPECT_LE(share({codec_kind::e3m0}), 0.13);
}

// Every 16-bit pattern is encoded as itself. A value between two neighbours becomes the nearer one,
// the even one if both are equally near.
TEST(codec, fp16_rounds_to_the_nearest_value_and_ties_to_even) {
  std::vector<float> all;
  for (unsigned bits = 0; bits < 0x7c00; ++bits) {
    const int exponent = static_cast<int>(bits >> 10), fraction = static_cast<int>(bits & 0x3ff);
    all.push_back(exponent == 0 ? std::ldexp(static_cast<float>(fraction), -24)
                                : std::ldexp(static_cast<float>(fraction + 1024), exponent - 25));
  }
  EXPECT_EQ(sent({codec_kind::fp16}, all).values, all);
  std::vector<float> between, nearest;
  for (std::size_t i = 0; i + 1 < all.size(); ++i) {
    const float middle = (all[i] + all[i + 1]) / 2;
    between.insert(between.end(), {std::nextafter(middle, 0.0F), middle, -std::nextafter(middle, 1e9F)});
    nearest.insert(nearest.end(), {all[i], i % 2 ? all[i + 1] : all[i], -all[i + 1]});
  }
  EXPECT_EQ(sent({codec_kind::fp16}, between).values, nearest);
  const std::vector<float> large{65519.0F, 65520.0F, -1e9F, 3e38F};
  const auto r = sent({codec_kind::fp16}, large);
  EXPECT_EQ(r.values, (std::vector<float>{65504, 65504, -65504, 65504}));
  EXPECT_EQ(r.residual[0], 15.0F);
  const float most = std::numeric_limits<float>::max();
  EXPECT_EQ(sent({codec_kind::bf16}, std::vector<float>{most}).values[0], std::bit_cast<float>(0x7f7f0000U));
  EXPECT_EQ(sent({codec_kind::fp16}, std::vector<double>{1e300}).values[0], 65504.0);
}

// Known relative errors on Gaussian values: e3m0 0.195 for any chunk; int8 0.0069 with a scale for
// 256 values and 0.0085 for 4,096 (here 1,024).
TEST(codec, has_the_known_relative_errors_on_gaussian_values) {
  const auto v = normal_values<float>(1 << 18, 3);
  const auto lost = [&](codec_kind k) { return relative_error(v, sent({k}, v).values); };
  EXPECT_NEAR(lost(codec_kind::e3m0), 0.195, 0.003);
  EXPECT_GT(lost(codec_kind::int8), 0.0069);
  EXPECT_LT(lost(codec_kind::int8), 0.0085);
  EXPECT_LT(lost(codec_kind::fp16), 0.0003);
  EXPECT_LT(lost(codec_kind::bf16), 0.0025);
  EXPECT_NEAR(lost(codec_kind::onebit), std::sqrt(1 - 2 / M_PI), 0.003);  // E|x|^2 of a Gaussian is 2/pi of E x^2
  const auto r = sent({codec_kind::e3m0}, v);
  double dot = 0, a = 0, b = 0;
  for (std::size_t i = 0; i < v.size(); ++i)
    dot += double(v[i]) * double(r.values[i]), a += double(v[i]) * double(v[i]), b += double(r.values[i]) * double(r.values[i]);
  EXPECT_GT(dot / std::sqrt(a * b), 0.98);
}

template <class T>
void keeps_what_it_does_not_send() {
  for (auto k : all_kinds) {
    const auto sum = normal_values<T>(3001, 5);
    auto e = normal_values<T>(3001, 6);
    for (auto& x : e) x /= 16;
    const auto r = sent({k, 0.1, 0.5}, sum, e);
    for (std::size_t i = 0; i < sum.size(); ++i) {
      const T a = sum[i] + e[i];
      if (k == codec_kind::onebit)
        EXPECT_NEAR(r.values[i] + r.residual[i], a, 1e-6) << i;
      else
        EXPECT_EQ(r.values[i] + r.residual[i], a) << name_of(k) << " " << i;
    }
  }
}
TEST(codec, decoded_plus_residual_is_sum_plus_old_residual) {
  keeps_what_it_does_not_send<float>();
  keeps_what_it_does_not_send<double>();
}

// Small whole numbers divided by a power of two, with as many values of each sign in the chunk: the
// means are exact, and so is the sum.
TEST(codec, onebit_is_exact_on_dyadic_numbers) {
  std::mt19937 g(9);
  std::vector<float> sum(1024), e(1024);
  for (std::size_t i = 0; i < sum.size(); ++i) {
    const auto whole = static_cast<float>(g() % 64 + 1);
    sum[i] = (i % 2 ? -whole : whole) / 8;
    e[i] = (i % 2 ? -1.0F : 1.0F) * static_cast<float>(g() % 8) / 8;
  }
  const auto r = sent({codec_kind::onebit}, sum, e);
  for (std::size_t i = 0; i < sum.size(); ++i) EXPECT_EQ(r.values[i] + r.residual[i], sum[i] + e[i]);
}

// Over many steps nothing is lost: everything that was decoded plus the last residual is everything
// that was to be sent.
TEST(codec, all_but_the_last_residual_is_sent_over_many_steps) {
  for (auto k : all_kinds) {
    std::vector<double> wanted(700), came(700), e(700);
    double largest = 0;
    for (unsigned step = 0; step < 200; ++step) {
      const auto sum = normal_values<double>(700, step);
      const auto r = sent({k, 0.05, 1.0}, sum, e);
      e = r.residual;
      for (std::size_t i = 0; i < 700; ++i)
        wanted[i] += sum[i], came[i] += r.values[i], largest = std::max(largest, std::abs(e[i]));
    }
    for (std::size_t i = 0; i < 700; ++i) EXPECT_NEAR(came[i] + e[i], wanted[i], 1e-9) << name_of(k);
    EXPECT_LT(largest, k == codec_kind::topk ? 60 : 15) << name_of(k);
  }
}

TEST(codec, topk_sends_the_largest_values_and_the_first_of_equal_ones) {
  const std::vector<float> v{1, -5, 2, 5, -2, 0, 5, 2, 0, 0, 0, 0};
  const auto r = sent({codec_kind::topk, 4.0 / 12}, v);
  EXPECT_EQ(r.values, (std::vector<float>{0, -5, 2, 5, 0, 0, 5, 0, 0, 0, 0, 0}));
  EXPECT_EQ(r.residual, (std::vector<float>{1, 0, 0, 0, -2, 0, 0, 2, 0, 0, 0, 0}));
  EXPECT_EQ(sent({codec_kind::topk, 1.0}, v).values, v);
  EXPECT_EQ(sent({codec_kind::threshold, 0, 5}, v).values, (std::vector<float>{0, -5, 0, 5, 0, 0, 5, 0, 0, 0, 0, 0}));
  EXPECT_EQ(sent({codec_kind::threshold, 0, 9}, v).bytes.size(), 4u);
}

TEST(codec, decodes_zeros_as_zeros) {
  for (auto k : all_kinds) {
    const std::vector<float> v(2000);
    const auto r = sent({k}, v);
    EXPECT_EQ(r.values, v) << name_of(k);
    EXPECT_EQ(r.residual, v) << name_of(k);
  }
}

TEST(codec, non_finite_values_stay_visible_and_keep_the_residual_unchanged) {
  for (auto k : all_kinds)
    for (float bad :
         {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity()})
      for (std::size_t at : {0u, 1u, 300u, 1999u}) {
        auto v = normal_values<float>(2000, 4);
        v[at] = bad;
        const std::vector<float> e(2000, 0.25F);
        const auto r = sent({k}, v, e);
        EXPECT_TRUE(std::any_of(r.values.begin(), r.values.end(), [](float x) { return !std::isfinite(x); }))
            << name_of(k) << " " << at;
        EXPECT_EQ(r.residual, e) << name_of(k);
      }
}

TEST(codec, decode_refuses_invalid_bytes_and_reads_none_past_the_end) {
  std::mt19937 g(11);
  for (auto k : all_kinds) {
    const codec_spec s{k, 0.1, 0.5};
    const auto right = sent(s, normal_values<float>(500, 2)).bytes;
    std::vector<float> to(500);
    for (int round = 0; round < 2000; ++round) {
      auto bytes = right;
      bytes.resize(g() % (right.size() + 9));
      for (int i = 0; i < 3 && !bytes.empty(); ++i) bytes[g() % bytes.size()] = static_cast<std::byte>(g());
      bytes.shrink_to_fit();  // so that a sanitizer detects a read past the end
      const bool taken = decode(s, bytes.data(), bytes.size(), to.data(), 500);
      if (k != codec_kind::topk && k != codec_kind::threshold) {
        EXPECT_EQ(taken, bytes.size() == right.size());
      }
    }
  }
  const codec_spec s{codec_kind::topk, 0.1};
  const auto refused = [&](std::vector<std::uint32_t> words) {
    std::vector<float> to(10);
    return !decode(s, reinterpret_cast<const std::byte*>(words.data()), words.size() * 4, to.data(), 10);
  };
  EXPECT_FALSE(refused({1, 9, 0}));
  EXPECT_TRUE(refused({1, 10, 0}));          // index out of range
  EXPECT_TRUE(refused({2, 3, 3, 0, 0}));     // index repeated
  EXPECT_TRUE(refused({0x20000001, 3, 0}));  // count whose bytes overflow
  EXPECT_TRUE(refused({11, 0, 0}));
}

}  // namespace
}  // namespace troupe
