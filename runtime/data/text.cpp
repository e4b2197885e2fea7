// text: one file of text as sequences of character ids. Example i is characters [i T, (i + 1) T) of
// its split; its label is the next character of each of them. So example i + 1 continues example i,
// and a sampler of sequence slots (sequence_sampler.cpp) reads the text without gaps. The end of
// the file is the test split. The vocabulary is every character of the whole file, by code point; a
// character's id is its index there.
#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>
#include <map>
#include <utility>

#include "ops/option_specs.hpp"
#include "runtime/data/file_bytes.hpp"
#include "runtime/data/source_options.hpp"
#include "runtime/data/stock.hpp"
#include "runtime/memory/process_memory.hpp"

namespace troupe {
namespace {

constexpr std::size_t max_characters = 65536;            // an id has 16 bits in memory
constexpr std::size_t max_bytes = std::size_t{1} << 32;  // of the file
constexpr std::uint32_t code_points = 0x110000;

class text_source final : public source {
 public:
  text_source(std::vector<std::uint16_t> numbers, std::vector<std::string> symbols, std::int64_t steps, std::int64_t train)
      : numbers_(std::move(numbers)), symbols_(std::move(symbols)), steps_(steps), train_(train) {}

  shape example() const override { return shape{steps_}; }
  shape label() const override { return shape{steps_}; }
  bool ids() const override { return true; }
  std::int64_t classes() const override { return static_cast<std::int64_t>(symbols_.size()); }
  std::vector<std::string> symbols() const override { return symbols_; }
  std::int64_t size(split s) const override { return std::max<std::int64_t>(0, (end(s) - begin(s) - 1) / steps_); }

  void read(split s, const std::vector<std::int64_t>& indices, tensor& data, tensor& label) const override {
    assert(data.count() == static_cast<std::int64_t>(indices.size()) * steps_ && label.count() == data.count());
    auto *in = data.mutable_data<std::int32_t>(), *next = label.mutable_data<std::int32_t>();
    for (auto i : indices) {
      assert(i < size(s));
      for (std::int64_t t = 0; t < steps_; ++t) {
        const auto at = static_cast<std::size_t>(begin(s) + i * steps_ + t);
        *in++ = i < 0 ? 0 : numbers_[at];
        *next++ = i < 0 ? -1 : numbers_[at + 1];
      }
    }
  }

 private:
  std::int64_t begin(split s) const { return s == split::train ? 0 : train_; }
  std::int64_t end(split s) const { return s == split::train ? train_ : static_cast<std::int64_t>(numbers_.size()); }

  std::vector<std::uint16_t> numbers_;  // ids of all characters of the file
  std::vector<std::string> symbols_;
  std::int64_t steps_;
  std::int64_t train_;  // characters of the training split
};

// Decodes the code point at bytes[at] and moves `at` behind it. Returns code_points if it is
// malformed (RFC 3629: no overlong forms, no surrogates).
std::uint32_t decode(const std::vector<std::uint8_t>& bytes, std::size_t& at) {
  const std::uint32_t first = bytes[at];
  if (first < 0x80) return ++at, first;
  const int more = first >= 0xf0 && first < 0xf8 ? 3 : first >= 0xe0 && first < 0xf0 ? 2 : first >= 0xc2 && first < 0xe0 ? 1 : 0;
  if (more == 0 || bytes.size() - at <= static_cast<std::size_t>(more)) return code_points;
  std::uint32_t code = first & (0x3fu >> more);
  for (int i = 1; i <= more; ++i) {
    const std::uint32_t next = bytes[at + static_cast<std::size_t>(i)];
    if ((next & 0xc0) != 0x80) return code_points;
    code = code << 6 | (next & 0x3f);
  }
  constexpr std::array<std::uint32_t, 4> least{0, 0x80, 0x800, 0x10000};
  if (code < least[static_cast<std::size_t>(more)] || code >= code_points || (code >= 0xd800 && code < 0xe000)) return code_points;
  at += static_cast<std::size_t>(more) + 1;
  return code;
}

std::string encoded(std::uint32_t code) {
  const auto tail = [&](int shift) { return static_cast<char>(0x80 | (code >> shift & 0x3f)); };
  if (code < 0x80) return {static_cast<char>(code)};
  if (code < 0x800) return {static_cast<char>(0xc0 | code >> 6), tail(0)};
  if (code < 0x10000) return {static_cast<char>(0xe0 | code >> 12), tail(6), tail(0)};
  return {static_cast<char>(0xf0 | code >> 18), tail(12), tail(6), tail(0)};
}

std::vector<std::uint32_t> characters(const std::vector<std::uint8_t>& bytes, const std::string& path) {
  std::vector<std::uint32_t> codes;
  codes.reserve(bytes.size());
  for (std::size_t at = 0; at < bytes.size();) {
    const auto here = at;
    codes.push_back(decode(bytes, at));
    if (codes.back() < code_points) continue;
    const auto lines =
        1 + static_cast<std::size_t>(std::count(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(here), '\n'));
    throw option_error("path", path + ": byte " + std::to_string(here) + " (line " + std::to_string(lines) +
                                   ") is not UTF-8; unit = \"byte\" reads any file");
  }
  return codes;
}

std::vector<std::uint8_t> bytes_of(const std::string& path) {
  check_path_text("path", path);
  std::vector<std::uint8_t> bytes;
  // While the file is opened, memory also holds the code points and the ids of its characters.
  const auto most = std::min<std::uint64_t>(max_bytes, memory_left() / 8);
  if (const auto fine = read_whole(path, bytes, most); !fine) throw option_error("path", path + ": " + fine.error().text);
  if (bytes.empty()) throw option_error("path", path + ": the file is empty");
  return bytes;
}

std::shared_ptr<const source> open_text(const options& o, std::uint64_t) {
  const auto& path = o.text("path");
  const bool whole = o.text("unit") == "byte";
  const auto steps = o.integer("sequence");
  const auto bytes = bytes_of(path);
  const auto codes = whole ? std::vector<std::uint32_t>(bytes.begin(), bytes.end()) : characters(bytes, path);
  std::vector<bool> seen(code_points, false);
  for (auto c : codes) seen[c] = true;
  std::vector<std::uint16_t> number(code_points, 0);
  std::vector<std::string> symbols;
  for (std::uint32_t c = 0; c < code_points; ++c) {
    if (!seen[c]) continue;
    if (symbols.size() == max_characters)
      throw option_error("path", path + ": more than " + std::to_string(max_characters) + " different characters");
    number[c] = static_cast<std::uint16_t>(symbols.size());
    symbols.push_back(whole ? std::string(1, static_cast<char>(c)) : encoded(c));
  }
  std::vector<std::uint16_t> numbers(codes.size());
  std::transform(codes.begin(), codes.end(), numbers.begin(), [&](std::uint32_t c) { return number[c]; });
  const auto all = static_cast<std::int64_t>(numbers.size());
  const auto train = all - static_cast<std::int64_t>(static_cast<double>(all) * o.real("test_fraction"));
  auto made = std::make_shared<text_source>(std::move(numbers), std::move(symbols), steps, train);
  const auto check = [&](split s, const char* name, std::int64_t characters) {
    if (made->size(s) < 1)
      throw option_error("sequence", path + ": the " + name + " part of " + std::to_string(characters) +
                                         " characters has no sequence of " + std::to_string(steps) + " and the character after it");
  };
  check(split::train, "training", train);
  if (o.real("test_fraction") > 0) check(split::test, "test", all - train);
  return made;
}

}  // namespace

source_type text_source_type() {
  return {"text",
          "Characters of a text file as ids: data [sequence] i32, label [sequence] the character after each. The vocabulary "
          "is every "
          "character of the file, by code point; the end of the file is the test split.",
          {option_of("path", option_kind::text, std::nullopt, "file of text, UTF-8"),
           required_integer("sequence", "characters of an example: the number of steps that a recurrent net is unrolled"),
           choice_option("unit", {"character", "byte"}, "what gets an id: characters of UTF-8, or bytes of any file"),
           real_option("test_fraction", 0.1, "fraction of the file, at its end, for the test split", 0.0, 0.9)},
          open_text,
          [](const options& o) {
            return std::vector<source_file>{{"path", o.text("path")}};
          }};
}

}  // namespace troupe
