// Format of packed data: one file with the examples of any source (`troupe pack`), for random
// access. All numbers are little-endian.
//
//   offset  bytes
//    0      8       "TROUPEPK"
//    8      4       version: 1, or 2 to 4 for data that the one before cannot describe
//   12      4       header bytes, checksum included
//   16      4       type of a value: 0 = u8 (value = byte * scale - mean), 1 = f32, 2 = i32 (ids)
//   20      4       rank of an example, 1 to 5
//   24      4       rank of a label, 0 to 5
//   28      4       examples per block, 1 to 65536
//   32      8       classes (0: no labels)
//   40      8       training examples
//   48      8       test examples
//           8       from version 2: ids in the values are below this number
//           4       from version 2: type of a label, 0 = i32 (classes), 1 = f32 (targets)
//           4       from version 3: order of the planes of colour pictures, 0 = RGB, 1 = BGR
//           8 each  extents of an example, then of a label
//           4       pairs (scale, mean), f64 each: for u8 one, or one for each step of the
//                   outermost axis; otherwise none
//           4       symbols (of text: the character of each class), each u32 length and UTF-8
//           4       from version 4: names of classes, 0 or one for each class, each u32 length and
//                   bytes; 0: the symbols are the names
//           4       CRC32C of the header before it
//
// The blocks follow at the next multiple of 4096: those of the training examples, then those of the
// test examples, all of one size. A block has the values of its examples, their labels (i32 or
// f32), the CRC32C of both, and zeros up to a multiple of 64. Unused space in the last block of a
// split is zero. The file ends with its last block.
//
// Errors: values. Any bytes give a header or an error. Nothing is allocated from a header's sizes
// before the file's size has confirmed them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/data/source.hpp"

namespace troupe {

struct packed_header {
  dtype type = dtype::u8;
  shape example, label;
  std::int64_t classes = 0, vocabulary = 0;
  bool targets = false;
  channel_order order = channel_order::rgb;
  std::int64_t train = 0, test = 0;
  std::int64_t block_examples = 1;
  byte_scaling scaling;  // of u8
  std::vector<std::string> symbols;
  std::vector<std::string> class_names;  // by class; empty: `symbols`, or none

  std::int64_t size(split s) const { return s == split::train ? train : test; }
  std::int64_t value_bytes() const;  // of one example
  std::int64_t label_bytes() const;
  std::int64_t checked_bytes() const {
    return block_examples * (value_bytes() + label_bytes());
  }  // of a block, before its checksum
  std::int64_t block_bytes() const;
  std::int64_t blocks(split s) const { return (size(s) + block_examples - 1) / block_examples; }
};

constexpr std::int64_t packed_alignment = 4096;
constexpr std::uint32_t max_packed_header_bytes = 16 << 20;

std::vector<std::uint8_t> encode_packed_header(const packed_header& h);

struct packed_layout {
  packed_header header;
  std::int64_t first_block = 0;  // offset in the file
};
// `begin`: the beginning of the file, at least its header (or the whole file). `file_bytes`: the
// file's size.
expected<packed_layout> decode_packed_header(std::span<const std::uint8_t> begin, std::uint64_t file_bytes);

}  // namespace troupe
