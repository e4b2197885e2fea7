// Fuzz target: IDX files, plain and compressed.
#include <zlib.h>

#include "runtime/data/idx_file.hpp"
#include "tests/fuzz/target.hpp"

namespace troupe::fuzz {
namespace {

void read_idx(input in) {
  const auto r = parse_idx({in.begin(), in.end()}, 1, 4);
  if (!r) return must(!r.error().text.empty(), "refused without a reason");
  const auto& a = *r;
  std::uint64_t count = 1;
  for (const auto e : a.extents) count *= static_cast<std::uint64_t>(e);
  must(a.offset + count <= a.bytes.size(), "the array is larger than the file");
}

std::vector<std::string> sound_idx() {
  const auto images = std::string("\0\0\x08\3\0\0\0\2\0\0\0\3\0\0\0\4", 16) + std::string(24, '\x7f');
  std::string packed(200, '\0');
  z_stream z{};
  if (deflateInit2(&z, 9, Z_DEFLATED, 31, 8, Z_DEFAULT_STRATEGY) != Z_OK) return {images};
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(images.data())), z.avail_in = static_cast<uInt>(images.size());
  z.next_out = reinterpret_cast<Bytef*>(packed.data()), z.avail_out = static_cast<uInt>(packed.size());
  deflate(&z, Z_FINISH);
  packed.resize(z.total_out);
  deflateEnd(&z);
  return {images, std::string("\0\0\x08\1\0\0\0\5", 8) + "abcde", packed};
}

const entry idx_entry({"idx", read_idx, sound_idx});

}  // namespace
}  // namespace troupe::fuzz
