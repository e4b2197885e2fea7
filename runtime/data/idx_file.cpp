#include "runtime/data/idx_file.hpp"

#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <new>
#include <utility>

#include "runtime/data/file_bytes.hpp"
#include "runtime/memory/process_memory.hpp"

namespace troupe {
namespace {

using bytes = std::vector<std::uint8_t>;

constexpr std::uint64_t max_elements = std::uint64_t{1} << 36;  // 64 GiB: a larger set is not meant to be kept in memory
constexpr std::size_t inflate_step = std::size_t{4} << 20;

struct idx_header {
  std::vector<std::int64_t> extents;
  std::uint64_t elements = 1;
  std::size_t bytes = 0;
};

// Parses the header at `p`.
expected<void> parse_header(const std::uint8_t* p, std::size_t n, int min_rank, int max_rank, idx_header& out) {
  if (n < 4) return unexpected(error("truncated: " + std::to_string(n) + " bytes, an IDX header has at least 4"));
  if (p[0] != 0 || p[1] != 0) return unexpected(error("bad magic: an IDX file begins with two zero bytes"));
  if (p[2] != 0x08) return unexpected(error("bad magic: the element type is not 0x08, unsigned bytes: only these are supported"));
  const int rank = p[3];
  if (rank < min_rank || rank > max_rank)
    return unexpected(error("bad magic: the number of dimensions is not " + std::to_string(min_rank) +
                            (max_rank > min_rank ? " to " + std::to_string(max_rank) : "")));
  out.bytes = 4 + 4 * static_cast<std::size_t>(rank);
  if (n < out.bytes)
    return unexpected(
        error("truncated: the header ends after " + std::to_string(n) + " of " + std::to_string(out.bytes) + " bytes"));
  for (int i = 0; i < rank; ++i) {
    const auto* d = p + 4 + 4 * i;
    const auto extent = (std::uint32_t{d[0]} << 24) | (std::uint32_t{d[1]} << 16) | (std::uint32_t{d[2]} << 8) | d[3];
    if (extent == 0) return unexpected(error("dimension " + std::to_string(i) + " is 0"));
    if (extent > max_elements / out.elements)
      return unexpected(error("invalid header: more than 2^36 elements up to dimension " + std::to_string(i)));
    out.elements *= extent;
    out.extents.push_back(extent);
  }
  return {};
}

expected<void> check_length(const idx_header& h, std::uint64_t payload) {
  if (payload < h.elements)
    return unexpected(error("truncated: the header declares " + std::to_string(h.elements) + " elements, the file has " +
                            std::to_string(payload)));
  if (payload > h.elements)
    return unexpected(error("trailing garbage: " + std::to_string(payload - h.elements) + " bytes after the last element"));
  return {};
}

bool is_gzip(const bytes& b) { return b.size() >= 2 && b[0] == 0x1f && b[1] == 0x8b; }

// One inflate stream over memory. Consecutive gzip members count as one file, as in gzip.
class gunzip {
 public:
  explicit gunzip(const bytes& packed) : packed_(packed) { ready_ = inflateInit2(&z_, 15 + 16) == Z_OK; }
  ~gunzip() {
    if (ready_) inflateEnd(&z_);
  }
  gunzip(const gunzip&) = delete;
  gunzip& operator=(const gunzip&) = delete;

  // Fills out[0, n) as far as there is data; `got` is the number of bytes. An error if the stream
  // is damaged.
  expected<void> read(std::uint8_t* out, std::size_t n, std::size_t& got) {
    got = 0;
    if (!ready_) return unexpected(error("zlib cannot start"));
    while (got < n && !done_) {
      feed();
      const auto room = static_cast<uInt>(std::min<std::size_t>(n - got, std::numeric_limits<uInt>::max()));
      z_.next_out = out + got;
      z_.avail_out = room;
      const int rc = inflate(&z_, Z_NO_FLUSH);
      got += room - z_.avail_out;
      if (rc == Z_STREAM_END) {
        if (auto fine = end_member(); !fine) return fine;
      } else if (rc == Z_BUF_ERROR || (rc == Z_OK && z_.avail_in == 0 && taken_ == packed_.size() && z_.avail_out > 0)) {
        return unexpected(error("truncated: the gzip stream ends after " + std::to_string(packed_.size()) + " bytes"));
      } else if (rc != Z_OK) {
        return unexpected(error(std::string("damaged gzip stream: ") + (z_.msg ? z_.msg : "unknown error")));
      }
    }
    return {};
  }
  bool done() const { return done_; }

 private:
  void feed() {
    if (z_.avail_in > 0) return;
    const auto n = std::min<std::size_t>(packed_.size() - taken_, std::size_t{1} << 30);
    z_.next_in = const_cast<Bytef*>(packed_.data() + taken_);  // zlib's next_in is not const, but it only reads
    z_.avail_in = static_cast<uInt>(n);
    taken_ += n;
  }
  expected<void> end_member() {
    const std::size_t left = z_.avail_in + (packed_.size() - taken_);
    if (left == 0) {
      done_ = true;
      return {};
    }
    const auto* next = packed_.data() + (packed_.size() - left);
    if (left < 2 || next[0] != 0x1f || next[1] != 0x8b)
      return unexpected(error("trailing garbage: " + std::to_string(left) + " bytes after the gzip stream"));
    inflateReset(&z_);
    return {};
  }

  const bytes& packed_;
  z_stream z_{};
  std::size_t taken_ = 0;
  bool ready_ = false;
  bool done_ = false;
};

idx_result parse_packed(const bytes& packed, int min_rank, int max_rank) {
  gunzip in(packed);
  idx_array out;
  out.bytes.resize(4 + 4 * static_cast<std::size_t>(max_rank));
  std::size_t got = 0;
  // The header first, by its own length: the data is allocated only after the header's sizes have
  // been checked.
  if (const auto fine = in.read(out.bytes.data(), 4, got); !fine) return unexpected(fine.error());
  idx_header h;
  if (got == 4 && out.bytes[3] <= max_rank) {
    std::size_t more = 0;
    if (const auto fine = in.read(out.bytes.data() + 4, 4 * std::size_t{out.bytes[3]}, more); !fine)
      return unexpected(fine.error());
    got += more;
  }
  if (const auto fine = parse_header(out.bytes.data(), got, min_rank, max_rank, h); !fine) return unexpected(fine.error());
  if (h.elements / deflate_ratio > packed.size())
    return unexpected(error("invalid header: " + std::to_string(h.elements) + " elements cannot come out of " +
                            std::to_string(packed.size()) + " compressed bytes"));
  out.extents = std::move(h.extents);
  out.offset = h.bytes;
  const std::size_t total = h.bytes + static_cast<std::size_t>(h.elements);
  if (const auto left = memory_left(); total > left / 2)
    return unexpected(error(std::to_string(total) + " bytes; at most " + std::to_string(left / 2) + " can be kept in memory"));
  out.bytes.reserve(total);  // address space; pages are touched only as data arrives
  out.bytes.resize(h.bytes);
  while (out.bytes.size() < total && !in.done()) {
    const auto at = out.bytes.size();
    out.bytes.resize(std::min(total, at + inflate_step));
    if (const auto fine = in.read(out.bytes.data() + at, out.bytes.size() - at, got); !fine) return unexpected(fine.error());
    out.bytes.resize(at + got);
  }
  std::uint8_t extra = 0;
  got = 0;
  if (!in.done())
    if (const auto fine = in.read(&extra, 1, got); !fine) return unexpected(fine.error());
  if (auto fine = check_length(h, out.bytes.size() - out.offset + got); !fine) return unexpected(fine.error());
  return out;
}

idx_result parse_plain(bytes file, int min_rank, int max_rank) {
  idx_header h;
  if (const auto fine = parse_header(file.data(), file.size(), min_rank, max_rank, h); !fine) return unexpected(fine.error());
  if (auto fine = check_length(h, file.size() - h.bytes); !fine) return unexpected(fine.error());
  return idx_array{std::move(h.extents), std::move(file), h.bytes};
}

}  // namespace

idx_result parse_idx(std::vector<std::uint8_t> file, int min_rank, int max_rank) {
  return is_gzip(file) ? parse_packed(file, min_rank, max_rank) : parse_plain(std::move(file), min_rank, max_rank);
}

idx_result read_idx(const std::string& path, int min_rank, int max_rank) {
  try {
    bytes file;
    if (const auto fine = read_whole(path, file, memory_left() / 2); !fine) return unexpected(fine.error());
    return parse_idx(std::move(file), min_rank, max_rank);
  } catch (const std::bad_alloc&) {
    return unexpected(error("does not fit into memory"));
  }
}

}  // namespace troupe
