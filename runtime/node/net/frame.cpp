#include "runtime/node/net/frame.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <new>
#include <string>

namespace troupe::net {
namespace {

static_assert(std::endian::native == std::endian::little, "headers are encoded in the byte order of the machine");

template <class T>
void put(std::byte* at, T v) {
  std::memcpy(at, &v, sizeof v);
}
template <class T>
T get(const std::byte* at) {
  T v;
  std::memcpy(&v, at, sizeof v);
  return v;
}

constexpr std::uint8_t continues_bit = 0x80, shares_bit = 0x40;
constexpr std::size_t crc_at = 12;
constexpr std::size_t direct_from = 4096;  // bytes; for less, a copy is cheaper than a separate read

std::uint32_t header_crc(header_block raw) {
  put(raw.data() + crc_at, std::uint32_t{0});
  return crc32c(0, raw.data(), raw.size());
}

}  // namespace

void encode_header(const frame_header& h, std::span<std::byte, header_bytes> out) {
  put(out.data(), frame_magic);
  put(out.data() + 2, frame_version);
  put(out.data() + 3, static_cast<std::uint8_t>(h.stream | (h.continues ? continues_bit : 0) | (h.shares ? shares_bit : 0)));
  put(out.data() + 4, h.type);
  put(out.data() + 6, h.flags);
  put(out.data() + 8, h.destination);
  put(out.data() + crc_at, h.crc);
  put(out.data() + 16, h.id);
  put(out.data() + 24, h.length);
}

expected<frame_header, coded_error> decode_header(std::span<const std::byte, header_bytes> in) {
  if (get<std::uint16_t>(in.data()) != frame_magic)
    return unexpected(coded_error{"bad_magic", "[frame] the header does not start with the magic number"});
  const auto version = get<std::uint8_t>(in.data() + 2);
  if (version != frame_version)
    return unexpected(coded_error{"bad_version", "[frame] version " + std::to_string(version) + " is not supported"});
  frame_header h;
  const auto stream = get<std::uint8_t>(in.data() + 3);
  h.stream = static_cast<std::uint8_t>(stream & ~(continues_bit | shares_bit));
  h.continues = (stream & continues_bit) != 0;
  h.shares = (stream & shares_bit) != 0;
  h.type = get<std::uint16_t>(in.data() + 4);
  h.flags = get<std::uint16_t>(in.data() + 6);
  h.destination = get<std::uint32_t>(in.data() + 8);
  h.crc = get<std::uint32_t>(in.data() + crc_at);
  h.id = get<std::uint64_t>(in.data() + 16);
  h.length = get<std::uint64_t>(in.data() + 24);
  return h;
}

frame_parser::frame_parser(std::uint64_t max_frame, allocator allocate) : max_frame_(max_frame), allocate_(std::move(allocate)) {}

bool frame_parser::fail(std::string code, std::string message) {
  failure_ = {std::move(code), std::move(message)};
  data_ = {};
  control_ = {};
  return false;
}

// Checks a header completely before memory is allocated for its frame.
bool frame_parser::accept_header() {
  auto decoded = decode_header(raw_);
  if (!decoded) return fail(decoded.error().code, decoded.error().message);
  const frame_header& h = *decoded;
  if (h.stream > (h.control() || h.shares ? 0 : max_streams) || (h.continues && (h.control() || h.shares)) ||
      (h.shares && h.control()))
    return fail("bad_stream", "[frame] stream " + std::to_string(h.stream) + " is not allowed for this frame");
  if (h.control()) {
    if (h.length > max_control)
      return fail("frame_too_large", "[frame] a control frame announces " + std::to_string(h.length) + " bytes");
    if (!begin(control_, h)) return false;
  } else if (!accept_data(h)) {
    return false;
  }
  chunk_header_ = h;
  chunk_left_ = h.chunk();
  crc_ = header_crc(raw_);
  return true;
}

bool frame_parser::accept_data(const frame_header& h) {
  if (!data_allowed_) return fail("unexpected_frame", "[frame] a data frame arrived before the peer was accepted");
  assembly& a = data_[h.stream];
  if (h.continues || a.payload) {
    const frame_header& first = a.header;
    const bool continues = h.continues && a.payload && h.type == first.type && h.flags == first.flags &&
                           h.destination == first.destination && h.id == first.id && h.length == first.length - a.filled;
    return continues || fail("bad_chunk", "[frame] a chunk does not continue the frame begun before it");
  }
  if (h.length > max_frame_)
    return fail("frame_too_large",
                "[frame] " + std::to_string(h.length) + " bytes announced, the limit is " + std::to_string(max_frame_));
  if (h.stream == 0 && h.length > max_chunk) return fail("bad_stream", "[frame] a frame of several chunks has no stream");
  return begin(a, h);
}

bool frame_parser::begin(assembly& a, const frame_header& h) {
  a.header = h;
  a.filled = 0;
  try {
    if (h.control()) {
      a.payload = std::shared_ptr<std::byte>(new std::byte[static_cast<std::size_t>(h.length)], std::default_delete<std::byte[]>());
      return true;
    }
    auto block = allocate_(h);
    if (!block) return fail(block.error().code, block.error().message);
    a.payload = std::move(*block);
  } catch (const std::bad_alloc&) {
    a.payload = nullptr;
  }
  return a.payload != nullptr || fail("out_of_memory", "[frame] no memory for a payload of " + std::to_string(h.length) + " bytes");
}

bool frame_parser::finish_chunk() {
  have_ = 0;
  return crc_ == chunk_header_.crc || fail("bad_crc", "[frame] a chunk's CRC32C does not match");
}

void frame_parser::deliver(frame& out) {
  assembly& a = current();
  const frame_header& h = a.header;
  out = {h.type, h.flags, h.destination, h.id, static_cast<std::size_t>(h.length), std::move(a.payload), {}};
}

frame_parser::result frame_parser::next(std::span<const std::byte>& in, frame& out) {
  if (!failure_.code.empty()) return result::failed;
  while (true) {
    if (have_ < header_bytes) {
      const std::size_t n = std::min(in.size(), header_bytes - have_);
      std::copy_n(in.begin(), n, raw_.begin() + static_cast<std::ptrdiff_t>(have_));
      have_ += n;
      in = in.subspan(n);
      if (have_ < header_bytes) return result::need_more;
      if (!accept_header()) return result::failed;
    }
    assembly& a = current();
    const auto n = static_cast<std::size_t>(std::min<std::uint64_t>(in.size(), chunk_left_));
    if (n > 0) {
      std::memcpy(a.payload.get() + a.filled, in.data(), n);
      in = in.subspan(n);
      commit(n);
    }
    if (chunk_left_ > 0) return result::need_more;
    if (!finish_chunk()) return result::failed;
    if (a.filled == a.header.length) {
      deliver(out);
      return result::complete;
    }
  }
}

std::span<std::byte> frame_parser::window() {
  if (have_ < header_bytes || chunk_header_.control() || chunk_left_ < direct_from || !failure_.code.empty()) return {};
  const assembly& a = data_[chunk_header_.stream];
  return {a.payload.get() + a.filled, static_cast<std::size_t>(chunk_left_)};
}

void frame_parser::commit(std::size_t n) {
  assembly& a = current();
  crc_ = crc32c(crc_, a.payload.get() + a.filled, n);
  a.filled += n;
  chunk_left_ -= n;
}

}  // namespace troupe::net
