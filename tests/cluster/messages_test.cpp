// Control messages as bytes: everything comes back as it was, and hostile bytes are answered by nothing.
#include <gtest/gtest.h>

#include <random>

#include "actors/control/messages.hpp"

namespace troupe::control {
namespace {

std::vector<message> samples() {
  return {join{"127.0.0.1:1", "openblas", 1, 2, 3},
          joined{"no"},
          submit{{"f", std::string("a\0b", 3), {"x=1", "y=2"}}, true, 7, {given_file::checkpoint, "c", 1ull << 33}},
          submitted{7, 8, {"m1", "m2"}},
          prepare{1, {"f", "t", {}}, "hash", {{"n1", "a", 2}, {"n2", "b", 3}}, true, 40},
          prepared{1, "e", "n3"},
          trouble{1, "n3", "m"},
          end_job{4},
          ended{4, 1ull << 40},
          leaving{false},
          report{1, 2, {{1, 2, "r", "w", 3, 4, 5, 6, 7, 8, 0.5, 0.25}}},
          said{1, "done", "finished", 9, {{"loss", -0.5}}, {{"sha", "x"}}},
          follow{3},
          fetch{3, 4},
          piece{3, 4, 5, std::string(1000, '\xfe'), {}},
          ask{1, true, true, "line", "text", "alice", 2},
          answer{1, 2, "text", "next"},
          revise{{1, {"f", "t", {}}, "hash", {{"n1", "a", 2}}, false, 0},
                 3,
                 {{"fc6", {"n1", "n2"}, true}},
                 {"n3"},
                 "ssp",
                 {{"staleness", "3"}}},
          revised{1, 2, "e", "n3"},
          swap{1, 2, 3},
          swapped{1, 2, 3, "e"},
          forget{1, 2}};
}

TEST(control_messages, every_one_comes_back_as_it_was) {
  const auto all = samples();
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
  for (const auto& m : samples()) {
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
  const auto all = samples();
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
