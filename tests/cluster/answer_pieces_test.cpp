// Answers that exceed one message arrive whole; above the limit of an answer they are cut with
// words.
#include "runtime/cluster/answer_pieces.hpp"
#include "actors/control/frames.hpp"

#include <gmock/gmock.h>

namespace troupe::control {
namespace {

// What a client gets that asked for `id`. `other`: a piece of another answer arrives in between.
std::optional<answer> received(const answer& whole, std::uint64_t id, const std::optional<answer>& other = {}) {
  answer_pieces joined;
  std::optional<answer> got;
  for (const auto& piece : in_pieces(whole)) {
    EXPECT_LE(encode(piece).size(), max_message);
    EXPECT_FALSE(got) << "a piece after the last one";
    const auto f = to_frame(piece);
    const auto back = decode(f.type, reinterpret_cast<const char*>(f.parts.front().data), f.parts.front().bytes);
    if (!back) return std::nullopt;
    if (other) {
      EXPECT_FALSE(joined.take(*other, id));
    }
    got = joined.take(std::get<answer>(*back), id);
  }
  return got;
}

TEST(answer_pieces, join_to_the_text_for_every_size_around_the_pieces) {
  for (const auto around : {std::size_t{0}, max_message / 2, max_message, longest_answer})
    for (std::size_t bytes = around > 1 ? around - 2 : 0; bytes <= std::min(around + 2, longest_answer); ++bytes) {
      std::string text(bytes, ' ');
      for (std::size_t i = 0; i < bytes; ++i) text[i] = static_cast<char>('a' + i % 23);
      const auto got = received({7, 1, text, "next"}, 7);
      ASSERT_TRUE(got) << bytes;
      EXPECT_EQ(got->text, text);
      EXPECT_EQ(got->next, "next");
      EXPECT_EQ(got->how, 1);
    }
}

TEST(answer_pieces, of_other_requests_are_ignored) {
  const std::string text(max_message + max_message / 2, 'x');
  EXPECT_EQ(received({7, 0, text, {}}, 7, answer{6, 0, "of an earlier request", {}, true}).value().text, text);
  EXPECT_FALSE(received({7, 0, text, {}}, 8));
}

TEST(answer_pieces, are_cut_with_words_when_the_answer_exceeds_its_limit) {
  std::string text;
  while (text.size() <= longest_answer) text += std::string(900, 'e') + "\n";
  const auto got = received({7, 0, text, {}}, 7).value();
  EXPECT_LE(got.text.size(), longest_answer);
  EXPECT_THAT(got.text, testing::ContainsRegex("more lines are left out: the answer has 4,19[45],[0-9]{3} bytes"));
}

TEST(answer_pieces, beyond_the_limit_of_an_answer_are_dropped) {
  answer_pieces joined;
  const std::string text(max_message, 'x');
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(joined.take({7, 0, text, {}, true}, 7));
  EXPECT_EQ(joined.take({7, 0, "end", {}}, 7).value().text.size(), longest_answer);
}

}  // namespace
}  // namespace troupe::control
