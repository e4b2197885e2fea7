// Fuzz target: the table of shared buffers in a frame. Every decoded piece must be within the
// sender's region and within the frame.
#include "runtime/node/net/memory_sharing.hpp"

#include <algorithm>

#include "tests/fuzz/target.hpp"

namespace troupe::fuzz {
namespace {

using namespace net;

constexpr std::uint64_t region = std::uint64_t{1} << 30;

void read_shared_buffers(input in) {
  const auto bytes = std::as_bytes(in);
  const auto rows = decode_shared_buffers(bytes, region);
  if (!rows) return must(rows.error().code == "bad_loan", "an error with another code");
  std::uint64_t end = 0, gone = 0;
  const auto table = shared_table_bytes(rows->size());
  must(table <= bytes.size(), "a table beyond the payload");
  for (const auto& l : *rows) {
    must(l.bytes > 0 && l.offset <= region && l.bytes <= region - l.offset, "a piece outside the region");
    must(l.at >= end && l.at - gone + l.bytes % 64 <= bytes.size() - table, "a piece outside the frame");
    end = l.at + l.bytes;
    gone += l.bytes / 64 * 64;
  }
  const auto again = encode_shared_buffers(*rows);
  must(std::equal(again.begin(), again.end(), bytes.begin()), "decoding and encoding change the table");
}

std::vector<std::string> valid_shared_buffers() {
  auto one = encode_shared_buffers({{64, 4096, 100'000, 1}}),
       three = encode_shared_buffers({{0, 64, 64, 1}, {64, 0, 1 << 20, 2}, {1 << 21, 0, 70, 3}});
  one.resize(one.size() + 200);
  three.resize(three.size() + (1 << 20) + 100);
  return {text(one), text(three)};
}

const entry shared_buffers_entry({"shared_buffers", read_shared_buffers, valid_shared_buffers});

}  // namespace
}  // namespace troupe::fuzz
