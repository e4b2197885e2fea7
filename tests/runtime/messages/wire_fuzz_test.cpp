#include <gtest/gtest.h>

#include "runtime/data/random.hpp"
#include "tests/runtime/messages/wire_samples.hpp"
#include "tests/runtime/record/record_temp_dir.hpp"

namespace troupe {
namespace {

using namespace wire_samples;

// Promise 16 (docs/promises.md). Each input is a valid message with a few bytes changed, cut or
// added. An accepted input must encode to itself.
TEST(wire, a_million_mutated_messages_are_decoded_or_rejected) {
  const auto samples = travelling_samples();
  std::vector<std::vector<std::uint8_t>> seeds;
  for (const auto& e : samples) seeds.push_back(joined(encode(e)));
  constexpr std::uint8_t edges[] = {0, 1, 2, 0x7f, 0x80, 0xff};
  counter_rng rng(16);
  std::uint64_t accepted = 0;
  const auto inputs = test::fuzz_inputs(1000000);
  std::vector<std::uint8_t> b;
  envelope e;
  for (std::uint64_t i = 0; i < inputs; ++i) {
    b = seeds[rng.draw_below(seeds.size())];
    const auto front = std::min<std::size_t>(b.size(), 200);  // header and fields; the rest is mostly payload
    for (auto n = rng.draw_below(3) + 1; n > 0; --n) {
      const auto bits = rng.next();
      switch (bits & 15) {
        case 0: b.resize(rng.draw_below(b.size() + 1)); break;
        case 1: b.resize(b.size() + rng.draw_below(70)); break;
        case 2:
          b.insert(b.begin() + static_cast<std::ptrdiff_t>(rng.draw_below(b.size() + 1)), static_cast<std::uint8_t>(bits >> 8));
          break;
        default: {
          if (b.empty()) break;
          const auto at = rng.draw_below(bits & 16 ? b.size() : std::min(front, b.size()));
          b[at] = bits & 32 ? edges[(bits >> 8) % 6] : static_cast<std::uint8_t>(bits >> 8);
        }
      }
    }
    if (const auto read = decode_bytes(b, e); !read) {
      ASSERT_FALSE(read.error().text.empty()) << "input " << i;
      continue;
    }
    ++accepted;
    if (i % 16 == 0) {
      ASSERT_EQ(joined(encode(e)), b) << "input " << i;
    }
  }
  EXPECT_GT(accepted, 0u);
  EXPECT_LT(accepted, inputs);
}

}  // namespace
}  // namespace troupe
