// Control messages as bytes: everything comes back as it was, and hostile bytes are answered by
// nothing.
#include <gtest/gtest.h>

#include <random>

#include "tests/cluster/message_samples.hpp"

namespace troupe::control {
namespace {

TEST(control_messages, every_one_comes_back_as_it_was) {
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

TEST(control_messages, cut_off_and_prolonged_bytes_are_no_message) {
  for (const auto& m : message_samples()) {
    const auto type = static_cast<std::uint16_t>(m.index() + 1);
    const auto bytes = encode(m);
    for (std::size_t n = 0; n < bytes.size(); ++n) EXPECT_FALSE(decode(type, bytes.data(), n)) << type << " " << n;
    EXPECT_FALSE(decode(type, (bytes + "x").data(), bytes.size() + 1));
  }
  EXPECT_FALSE(decode(0, "", 0));
  EXPECT_FALSE(decode(999, "", 0));
}

TEST(control_messages, a_hundred_thousand_mutated_ones_do_no_harm) {
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

TEST(control_messages, a_count_that_promises_too_much_takes_no_memory) {
  const std::string huge("\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\xff\xff\xff\xff", 20);
  EXPECT_FALSE(decode(11, huge.data(), huge.size()));  // a report of four thousand million roles
}

}  // namespace
}  // namespace troupe::control
