#include "runtime/cluster/pieces.hpp"

#include <algorithm>
#include <fstream>

namespace troupe::control {

piece read_piece(const fetch& f, const std::string& path, const std::string& what) {
  piece p{f.job, f.offset, 0, {}, {}};
  std::ifstream in(path, std::ios::binary | std::ios::ate);
  if (path.empty() || !in) {
    p.error = "there are no " + what;
    return p;
  }
  p.total = static_cast<std::uint64_t>(in.tellg());
  if (f.offset >= p.total) return p;
  p.bytes.resize(std::min<std::uint64_t>(piece_bytes, p.total - f.offset));
  in.seekg(static_cast<std::streamoff>(f.offset));
  if (!in.read(p.bytes.data(), static_cast<std::streamsize>(p.bytes.size())))
    p = {f.job, f.offset, p.total, {}, "cannot read " + path};
  return p;
}

}  // namespace troupe::control
