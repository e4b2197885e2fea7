// Fuzz target: headers of packed data, with a valid checksum.
#include "runtime/checksum/crc32c.hpp"
#include "runtime/data/packed_file.hpp"
#include "tests/fuzz/target.hpp"

namespace troupe::fuzz {
namespace {

void read_packed(input in) {
  reader r(in);
  const auto file_bytes = r.number(5);
  std::vector<std::uint8_t> b(r.rest().begin(), r.rest().end());
  if (b.size() > 20 && (file_bytes & 1) == 0) {  // the header's length and checksum
    const auto n = static_cast<std::uint32_t>(b.size());
    const auto put = [&](std::size_t at, std::uint32_t v) {
      for (std::size_t i = 0; i < 4; ++i) b[at + i] = static_cast<std::uint8_t>(v >> (8 * i));
    };
    put(12, n);
    put(b.size() - 4, crc32c(0, b.data(), b.size() - 4));
  }
  const auto read = decode_packed_header(b, file_bytes);
  if (!read) return must(!read.error().text.empty(), "refused without a reason");
  const auto& l = *read;
  const auto blocks = l.header.blocks(split::train) + l.header.blocks(split::test);
  must(static_cast<std::uint64_t>(l.first_block + blocks * l.header.block_bytes()) <= file_bytes,
       "the blocks are larger than the file");
}

std::vector<std::string> sound_packed() {
  std::vector<std::string> all;
  for (const auto type : {dtype::u8, dtype::f32, dtype::i32}) {
    packed_header h;
    h.type = type;
    h.example = type == dtype::i32 ? shape{8} : shape{1, 2, 3}, h.label = type == dtype::i32 ? shape{8} : shape{};
    h.classes = 3, h.train = 10, h.test = 4, h.block_examples = 4;
    if (type == dtype::u8) h.scaling = {{1.0 / 255}, {0.5}};
    if (type == dtype::i32) h.symbols = {"a", "b", "\xc3\xa9"}, h.vocabulary = 3;
    if (type == dtype::f32) h.targets = true, h.classes = 0, h.label = shape{2};
    const auto bytes = packed_alignment + (h.blocks(split::train) + h.blocks(split::test)) * h.block_bytes();
    std::string s(5, '\0');
    for (std::size_t i = 0; i < 5; ++i) s[i] = static_cast<char>(bytes >> (8 * i));
    all.push_back(s + text(encode_packed_header(h)));
  }
  return all;
}

const entry packed_entry({"packed", read_packed, sound_packed});

}  // namespace
}  // namespace troupe::fuzz
