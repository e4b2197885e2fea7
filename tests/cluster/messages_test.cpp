// Encoding of control messages: decoding returns the message that was encoded, and invalid bytes
// are rejected.
#include <gtest/gtest.h>

#include <random>

#include "tests/cluster/message_samples.hpp"

namespace troupe::control {
namespace {

TEST(control_messages, every_message_type_survives_encoding_and_decoding) {
  const auto all = message_samples();
  EXPECT_EQ(all.size(), std::variant_size_v<message>);
  for (std::size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(all[i].index(), i);
    const auto bytes = encode(all[i]);
    const auto back = decode(static_cast<std::uint16_t>(i + 1), bytes.data(), bytes.size());
    ASSERT_TRUE(back) << i;
    EXPECT_EQ(encode(*back), bytes) << i;
  }
}

TEST(control_messages, truncated_and_extended_messages_are_rejected) {
  for (const auto& m : message_samples()) {
    const auto type = static_cast<std::uint16_t>(m.index() + 1);
    const auto bytes = encode(m);
    for (std::size_t n = 0; n < bytes.size(); ++n) EXPECT_FALSE(decode(type, bytes.data(), n)) << type << " " << n;
    EXPECT_FALSE(decode(type, (bytes + "x").data(), bytes.size() + 1));
  }
  EXPECT_FALSE(decode(0, "", 0));
  EXPECT_FALSE(decode(999, "", 0));
}

TEST(control_messages, decoding_100000_mutated_messages_does_not_crash) {
  std::mt19937_64 rng(1);
  const auto all = message_samples();
  std::size_t sound = 0;
  for (int i = 0; i < 100000; ++i) {
    const auto& m = all[rng() % all.size()];
    auto bytes = encode(m);
    for (auto n = 1 + rng() % 4; n > 0; --n) bytes[rng() % bytes.size()] = static_cast<char>(rng());
    sound += decode(static_cast<std::uint16_t>(1 + rng() % 23), bytes.data(), bytes.size()) ? 1u : 0u;
  }
  EXPECT_GT(sound, 0u);
}

TEST(control_messages, a_count_larger_than_the_message_is_rejected) {
  const std::string huge("\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\xff\xff\xff\xff", 20);
  EXPECT_FALSE(decode(11, huge.data(), huge.size()));  // a report that announces 2^32 - 1 roles
}

}  // namespace
}  // namespace troupe::control
