// Fuzz target: packed data; its header and, if the file is small, its blocks get valid checksums.
#include <algorithm>
#include <stdexcept>

#include "runtime/checksum/crc32c.hpp"
#include "runtime/data/packed.hpp"
#include "runtime/data/packed_file.hpp"
#include "tests/fuzz/target.hpp"

namespace troupe::fuzz {
namespace {

void put_u32(std::vector<std::uint8_t>& b, std::size_t at, std::uint32_t v) {
  for (std::size_t i = 0; i < 4; ++i) b[at + i] = static_cast<std::uint8_t>(v >> (8 * i));
}

// Reads every example. The bytes of the header stand for the numbers in the blocks, too.
void read_blocks(const packed_layout& l, std::vector<std::uint8_t> b, std::size_t file_bytes) {
  const auto header = b;
  b.resize(file_bytes);
  const auto& h = l.header;
  const auto first = static_cast<std::size_t>(l.first_block), each = static_cast<std::size_t>(h.block_bytes());
  const auto checked = static_cast<std::size_t>(h.checked_bytes());
  for (auto at = first; at < b.size(); at += each) {
    for (std::size_t i = 0; i < checked && h.type != dtype::i32; ++i) b[at + i] = header[i % header.size()] & (i % 4 ? 0 : 1);
    put_u32(b, at + checked, crc32c(0, b.data() + at, checked));
  }
  const auto opened = open_packed(bytes_in_memory(std::move(b)), "packed");
  must(opened.has_value(), "a header is valid only sometimes");
  const auto& s = **opened;
  must(s.class_names().empty() || static_cast<std::int64_t>(s.class_names().size()) == s.classes(), "a class has no name");
  for (const auto part : {split::train, split::test})
    for (std::int64_t i = 0; i < std::min<std::int64_t>(s.size(part), 100); ++i) {
      // Numbers of 4 bytes, both examples and labels.
      std::vector<float> values(static_cast<std::size_t>(s.example().count())), wanted(static_cast<std::size_t>(s.label().count()));
      auto data = tensor::borrow(values.data(), shape{1, s.example().count()}, h.type == dtype::i32 ? dtype::i32 : dtype::f32);
      auto label = tensor::borrow(wanted.data(), shape{s.label().count()}, h.targets ? dtype::f32 : dtype::i32);
      try {
        s.read(part, {i}, data, label);
      } catch (const std::runtime_error& e) {
        must(*e.what() != 0, "refused without a reason");
      }
    }
}

void read_packed(input in) {
  reader r(in);
  const auto file_bytes = r.number(5);
  std::vector<std::uint8_t> b(r.rest().begin(), r.rest().end());
  if (b.size() > 20 && (file_bytes & 1) == 0) {  // the header's length and checksum
    const auto n = static_cast<std::uint32_t>(b.size());
    put_u32(b, 12, n);
    put_u32(b, b.size() - 4, crc32c(0, b.data(), b.size() - 4));
  }
  const auto read = decode_packed_header(b, file_bytes);
  if (!read) return must(!read.error().text.empty(), "refused without a reason");
  const auto& l = *read;
  const auto blocks = l.header.blocks(split::train) + l.header.blocks(split::test);
  must(static_cast<std::uint64_t>(l.first_block + blocks * l.header.block_bytes()) <= file_bytes,
       "the blocks are larger than the file");
  if (file_bytes <= 1 << 16) read_blocks(l, std::move(b), file_bytes);
}

std::vector<std::string> sound_packed() {
  std::vector<std::string> all;
  for (const auto type : {dtype::u8, dtype::f32, dtype::i32}) {
    packed_header h;
    h.type = type;
    h.example = type == dtype::i32 ? shape{8} : shape{1, 2, 3}, h.label = type == dtype::i32 ? shape{8} : shape{};
    h.classes = 3, h.train = 10, h.test = 4, h.block_examples = 4;
    if (type == dtype::u8) h.scaling = {{1.0 / 255}, {0.5}}, h.class_names = {"cat", "", "d\xf6g"};
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
