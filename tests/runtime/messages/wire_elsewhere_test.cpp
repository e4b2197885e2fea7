// Messages whose tensors' payloads are in other memory, as transports with shared buffers pass
// them: decoding gives the same message as from one buffer, and invalid pieces are refused.
#include <gtest/gtest.h>

#include <random>

#include "tests/error_text.hpp"
#include "tests/runtime/messages/wire_samples.hpp"

namespace troupe {
namespace {

using namespace wire_samples;

struct taken_apart {
  std::vector<std::uint8_t> here;
  std::vector<wire_piece> elsewhere;
  std::vector<buffer> memory;

  expected<void> read(envelope& out) const {
    const buffer b(here);
    return decode(b.data.get(), b.bytes, b.data, out, elsewhere);
  }
};

// Moves the parts for which `lends` returns true to other memory. The bytes of such a part that
// remain in the buffer are not zero; decode() must not read them.
template <class F>
taken_apart apart(const std::vector<wire_part>& parts, F lends) {
  taken_apart out;
  std::size_t at = 0;
  for (std::size_t k = 0; k < parts.size(); ++k) {
    const auto* b = static_cast<const std::uint8_t*>(parts[k].data);
    if (k > 0 && at % 64 == 0 && parts[k].bytes > 0 && parts[k].owner && lends(k)) {
      auto& m = out.memory.emplace_back(std::vector<std::uint8_t>(b, b + parts[k].bytes));
      out.elsewhere.push_back({at, parts[k].bytes, m.data.get(), m.data});
      out.here.insert(out.here.end(), parts[k].bytes % 64, 0xa5);
    } else {
      out.here.insert(out.here.end(), b, b + parts[k].bytes);
    }
    at += parts[k].bytes;
  }
  return out;
}

TEST(wire_elsewhere, payloads_in_other_memory_give_the_same_message) {
  std::mt19937_64 rng(5);
  std::size_t pieces = 0;
  for (const auto& e : all_samples()) {
    const auto parts = encode(e);
    for (int round = 0; round < 8 && !parts.empty(); ++round) {
      const auto a = apart(parts, [&](std::size_t) { return round == 0 || rng() % 2 == 0; });
      envelope back;
      ASSERT_EQ(test::error_text(a.read(back)), "") << name_of(e.body);
      EXPECT_EQ(joined(encode(back)), joined(parts)) << name_of(e.body);
      pieces += a.elsewhere.size();
    }
  }
  EXPECT_GT(pieces, 50U) << "the samples must have enough payloads";
}

TEST(wire_elsewhere, tensors_view_the_piece_and_keep_it_alive) {
  const auto parts = encode({{}, layer_weights{1, {made<float>({1000}, 1.0F)}}});
  auto a = apart(parts, [](std::size_t) { return true; });
  ASSERT_EQ(a.elsewhere.size(), 1U);
  const std::weak_ptr<const void> watch = a.elsewhere[0].owner;
  const void* const there = a.elsewhere[0].data;
  envelope e;
  ASSERT_EQ(test::error_text(a.read(e)), "");
  a = {};
  auto& t = std::get<layer_weights>(e.body).values[0];
  EXPECT_EQ(t.raw(), there);
  EXPECT_EQ(t.data<float>()[999], 1000.0F);
  EXPECT_FALSE(watch.expired());
  t = {};
  EXPECT_TRUE(watch.expired());
}

TEST(wire_elsewhere, pieces_that_do_not_match_a_tensor_are_refused) {
  const auto parts = encode({{}, layer_weights{1, {made<float>({1000}, 1.0F), made<float>({77}, 1.0F)}}});
  const auto why = [&](const std::function<void(taken_apart&)>& change) {
    auto a = apart(parts, [](std::size_t) { return true; });
    change(a);
    envelope e;
    return test::error_text(a.read(e));
  };
  EXPECT_EQ(why([](auto&) {}), "");
  EXPECT_NE(why([](auto& a) { a.elsewhere[0].bytes -= 4; }), "") << "shorter than the tensor";
  EXPECT_NE(why([](auto& a) { a.elsewhere[0].bytes += 64; }), "");
  EXPECT_NE(why([](auto& a) { a.elsewhere[0].at += 64; }), "") << "no tensor begins there";
  EXPECT_NE(why([](auto& a) { a.elsewhere.pop_back(); }), "") << "a piece is missing";
  EXPECT_NE(why([](auto& a) { a.elsewhere.push_back(a.elsewhere[0]); }), "") << "one piece too many";
  EXPECT_NE(why([](auto& a) { std::swap(a.elsewhere[0], a.elsewhere[1]); }), "");
  EXPECT_NE(why([](auto& a) { a.elsewhere[1].data = static_cast<const char*>(a.elsewhere[1].data) + 4; }), "") << "not aligned";
  EXPECT_NE(why([](auto& a) { a.here.pop_back(); }), "");
  EXPECT_NE(why([](auto& a) { a.here.push_back(0); }), "");
}

// ASan reports a read beyond the buffer or a piece.
TEST(wire_elsewhere, mutated_messages_and_pieces_are_decoded_or_rejected) {
  std::mt19937_64 rng(9);
  int taken = 0;
  std::vector<taken_apart> all;
  for (const auto& e : travelling_samples())
    if (auto a = apart(encode(e), [](std::size_t) { return true; }); !a.elsewhere.empty()) all.push_back(std::move(a));
  for (int i = 0; i < 20'000; ++i) {
    auto a = all[rng() % all.size()];
    auto& piece = a.elsewhere[rng() % a.elsewhere.size()];
    if (rng() % 3 == 0) piece.at = rng() % 2 ? rng() % 4096 : rng();
    if (rng() % 3 == 0) piece.bytes -= rng() % (piece.bytes + 1);  // never more than the memory has
    for (auto n = rng() % 3; n > 0; --n) a.here[rng() % a.here.size()] ^= static_cast<std::uint8_t>(1U << (rng() % 8));
    envelope e;
    if (const auto read = a.read(e))
      ++taken, (void)joined(encode(e));
    else
      EXPECT_NE(read.error().text, "");
  }
  EXPECT_GT(taken, 100);
}

}  // namespace
}  // namespace troupe
