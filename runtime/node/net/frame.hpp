// The wire format. A frame is sent as chunks of at most 1 MiB, so that no frame waits behind a
// whole tensor. Each chunk is a 32-byte header and its bytes. All numbers are little-endian.
//
//   byte   0  magic u16        byte   8  destination u32
//          2  version u8             12  crc u32
//          3  stream u8              16  id u64
//          4  type u16               24  length u64
//          6  flags u16
//
// `length` is the number of payload bytes not yet sent, this chunk included: the first chunk states
// the size of the payload, each chunk carries min(length, 1 MiB), and the frame ends with the chunk
// that carries all of its `length`.
//
// A frame of several chunks has a stream, 1 to 8, until its last chunk has been sent. In `stream`,
// 0x80 marks all chunks but the first. 0x40 marks a payload that begins with a table of shared
// buffers (memory_sharing.hpp); such a frame has one chunk and no stream. Chunks of other streams,
// whole frames (stream 0) and control frames (type >= 0xff00, stream 0, at most 4 KiB) may come
// between the chunks of a stream.
//
// `crc` is the CRC32C of the header (with crc = 0) and the chunk. Control frames without a stream,
// the only ones until the greeting is over, have not changed since protocol 1, so that a peer of
// another protocol can receive the reason for its refusal.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "runtime/base/result.hpp"
#include "runtime/checksum/crc32c.hpp"
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
// Writes `crc` unchanged; encode once with crc = 0 to compute it.
void encode_header(const frame_header& h, std::span<std::byte, header_bytes> out);
// The error is "bad_magic" or "bad_version".
expected<frame_header, coded_error> decode_header(std::span<const std::byte, header_bytes> in);
// Encodes the header of a chunk, its crc included. `pieces` are the bytes of the chunk; each needs
// data() and size().
template <class Pieces>
void seal_header(frame_header h, const Pieces& pieces, std::span<std::byte, header_bytes> out) {
  h.crc = 0;
  encode_header(h, out);
  h.crc = crc32c(0, out.data(), out.size());
  for (const auto& piece : pieces) h.crc = crc32c(h.crc, piece.data(), piece.size());
  encode_header(h, out);
}

// Parses bytes into frames. No I/O, no clock. Memory is bounded: one payload per stream, which
// `allocator` may refuse, one control frame and one header. After a failure every call fails.
class frame_parser {
 public:
  // Called once per data frame, after all checks of its header, to allocate `h.length` bytes. An
  // error or std::bad_alloc fails the parser.
  using allocator = std::function<expected<std::shared_ptr<std::byte>, coded_error>(const frame_header& h)>;
  enum class result { need_more, complete, failed };

  frame_parser(std::uint64_t max_frame, allocator allocate);

  // Until this is called with true, a data frame is an error ("unexpected_frame").
  void allow_data(bool yes) { data_allowed_ = yes; }

  // Consumes bytes from the front of `in` until a frame is complete or `in` is empty.
  result next(std::span<const std::byte>& in, frame& out);
  bool shares() const { return chunk_header_.shares; }  // true if the completed frame has a table of shared buffers

  // For zero copy: the place of the next bytes of the current chunk. Empty if reading into a
  // staging buffer and next() is cheaper. After commit(n) for n bytes written there, call next()
  // with an empty `in`: it returns whether the frame is complete.
  std::span<std::byte> window();
  void commit(std::size_t n);

  const coded_error& failure() const { return failure_; }

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
  std::size_t have_ = 0;  // bytes of raw_; header_bytes: inside a chunk
  frame_header chunk_header_;
  std::uint64_t chunk_left_ = 0;
  std::uint32_t crc_ = 0;
  std::array<assembly, max_streams + 1> data_;  // by stream; a non-null payload waits for further chunks
  assembly control_;
  coded_error failure_;
};

}  // namespace troupe::net
