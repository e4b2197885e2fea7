// The bytes on the wire. A frame travels as chunks of at most 1 MiB, so that nothing ever waits
// behind a whole tensor. Each chunk is a 32-byte header and its bytes; all numbers little-endian:
//
//   0 magic u16 | 2 version u8 | 3 stream u8 | 4 type u16 | 6 flags u16 | 8 destination u32 | 12 crc u32 | 16 id u64 | 24 length u64
//
// `length` is what is still to come of the payload, this chunk included: the first chunk's is the
// payload's size, a chunk carries min(length, 1 MiB), and the last one is the one whose length
// fits. A frame of several chunks has a stream, 1 to 8, as long as it is on its way, and its first
// chunk alone has no 0x80 there; 0x40 there says that the payload begins with a table of loans
// (memory_sharing.hpp), which has one chunk and no stream; chunks of other streams, whole frames
// (stream 0) and control frames (type >= 0xff00, stream 0, never more than 4 KiB) come between.
// `crc` is the CRC32C of the header (with crc = 0) and the chunk. What comes before the greeting is
// over, control frames without stream, has not changed since protocol 1: so a peer of another
// protocol can be told why it is refused.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "runtime/checksum/crc32c.hpp"
#include "runtime/node/net/error.hpp"
#include "runtime/node/net/transport.hpp"

namespace troupe::net {

inline constexpr std::uint16_t frame_magic = 0x5054;  // "TP"
inline constexpr std::uint8_t frame_version = 1;
inline constexpr std::size_t header_bytes = 32;
inline constexpr std::uint64_t max_chunk = std::uint64_t{1} << 20;
inline constexpr std::uint64_t max_control = 4096;
inline constexpr std::uint8_t max_streams = 8;

struct frame_header {
  std::uint16_t type = 0;
  std::uint16_t flags = 0;
  std::uint32_t destination = 0;
  std::uint32_t crc = 0;
  std::uint64_t id = 0;
  std::uint64_t length = 0;
  std::uint8_t stream = 0;
  bool continues = false;  // not the frame's first chunk
  bool shares = false;

  std::uint64_t chunk() const { return length < max_chunk ? length : max_chunk; }
  bool control() const { return type >= first_reserved_type; }
};

using header_block = std::array<std::byte, header_bytes>;
// `crc` is put in as it stands; encode once with 0 to compute it.
void encode_header(const frame_header& h, std::span<std::byte, header_bytes> out);
// The error is "bad_magic" or "bad_version".
expected<frame_header> decode_header(std::span<const std::byte, header_bytes> in);
// Encodes the header of a chunk, its crc included. `pieces` make up the chunk; anything with data()
// and size() will do.
template <class Pieces>
void seal_header(frame_header h, const Pieces& pieces, std::span<std::byte, header_bytes> out) {
  h.crc = 0;
  encode_header(h, out);
  h.crc = crc32c(0, out.data(), out.size());
  for (const auto& piece : pieces) h.crc = crc32c(h.crc, piece.data(), piece.size());
  encode_header(h, out);
}

// Bytes in, frames out. No I/O, no clock; memory is bounded by a payload for each stream, which
// `allocator` may refuse, one control frame and one header. Once failed it stays so.
class frame_parser {
 public:
  // Asked once per data frame, after every check of its header, for its `length`. An error (or a
  // throw of bad_alloc) fails the parser.
  using allocator = std::function<expected<std::shared_ptr<std::byte>>(const frame_header& h)>;
  enum class result { need_more, complete, failed };

  frame_parser(std::uint64_t max_frame, allocator allocate);

  // Until the peer is accepted, a data frame is an error ("unexpected_frame").
  void allow_data(bool yes) { data_allowed_ = yes; }

  // Takes bytes from the front of `in` until a frame is complete or `in` is empty.
  result next(std::span<const std::byte>& in, frame& out);
  bool shares() const { return chunk_header_.shares; }  // the frame that is complete

  // Zero copy: where the next bytes of the chunk being received belong; empty when staging them and
  // next() is better. After commit(n) bytes have been put there, next() with an empty `in` tells
  // whether that completed the frame.
  std::span<std::byte> window();
  void commit(std::size_t n);

  const error& failure() const { return failure_; }

 private:
  struct assembly {
    frame_header header;  // of the first chunk
    std::shared_ptr<std::byte> payload;
    std::uint64_t filled = 0;
  };

  bool accept_header();
  bool accept_data(const frame_header& h);
  assembly& current() { return chunk_header_.control() ? control_ : data_[chunk_header_.stream]; }
  bool begin(assembly& a, const frame_header& h);
  bool finish_chunk();
  bool fail(std::string code, std::string message);
  void deliver(frame& out);

  const std::uint64_t max_frame_;
  const allocator allocate_;
  bool data_allowed_ = false;
  header_block raw_{};
  std::size_t have_ = 0;  // bytes of raw_; header_bytes means: inside a chunk
  frame_header chunk_header_;
  std::uint64_t chunk_left_ = 0;
  std::uint32_t crc_ = 0;
  std::array<assembly, max_streams + 1> data_;  // by stream; with a payload: waits for further chunks
  assembly control_;
  error failure_;
};

}  // namespace troupe::net
