#include <gtest/gtest.h>

#include <numeric>

#include "runtime/record/sha256.hpp"

namespace troupe {
namespace {

std::string sha256_of(const std::string& s) { return sha256_hex(s.data(), s.size()); }

TEST(record_sha256, fips_180_4_vectors) {
  EXPECT_EQ(sha256_of(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_of("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256_of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(
      sha256_of("abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu"),
      "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1");
  EXPECT_EQ(sha256_of(std::string(1000000, 'a')), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(record_sha256, updates_in_pieces_equal_one_update) {
  std::string s(1000, '\0');
  std::iota(s.begin(), s.end(), '\0');
  for (std::size_t first : {1u, 55u, 56u, 63u, 64u, 65u, 128u, 999u}) {
    sha256 h;
    h.update(s.data(), first);
    for (std::size_t i = first; i < s.size(); ++i) h.update(&s[i], 1);
    const auto d = h.finish();
    EXPECT_EQ(hex_of(d.data(), d.size()), sha256_of(s)) << first;
  }
}

TEST(record_sha256, hardware_and_portable_blocks_agree) {
  if (!detail::sha256_has_hardware()) GTEST_SKIP() << "this CPU has no SHA instructions";
  std::vector<std::uint8_t> data(64 * 9);
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::uint8_t>(i * 131 + i / 7);
  std::array<std::uint32_t, 8> a = {1, 2, 3, 4, 5, 0xffffffff, 7, 8}, b = a;
  detail::sha256_blocks_portable(a, data.data(), 9);
  detail::sha256_blocks_hardware(b, data.data(), 9);
  EXPECT_EQ(a, b);
}

TEST(record_sha256, weights_hash_covers_f32_bytes_in_the_given_order) {
  std::vector<float> w(3000), b = {0.5f, -1};
  for (std::size_t i = 0; i < w.size(); ++i) w[i] = 0.1f * static_cast<float>(i);
  std::vector<double> w64(w.begin(), w.end());
  w64[7] += 1e-12;  // rounds to the same float
  const auto t = [](auto& v) {
    return tensor::borrow(v.data(), shape{static_cast<std::int64_t>(v.size())}, dtype_of<std::decay_t<decltype(v[0])>>);
  };
  std::string raw(reinterpret_cast<const char*>(w.data()), w.size() * 4);
  raw.append(reinterpret_cast<const char*>(b.data()), b.size() * 4);
  EXPECT_EQ(weights_sha256({{"w", t(w)}, {"b", t(b)}}), sha256_of(raw));
  EXPECT_EQ(weights_sha256({{"w", t(w64)}, {"b", t(b)}}), sha256_of(raw));
  EXPECT_NE(weights_sha256({{"b", t(b)}, {"w", t(w)}}), sha256_of(raw));
  EXPECT_EQ(weights_sha256({}), sha256_of(""));
  EXPECT_EQ(weights_sha256({{"w", tensor::declare(shape{3}, dtype::f32)}}), sha256_of(""));
}

}  // namespace
}  // namespace troupe
