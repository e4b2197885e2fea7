#include "runtime/node/role_frames.hpp"

#include <vector>

#include "runtime/messages/fits.hpp"
#include "runtime/messages/wire.hpp"

namespace troupe {
namespace {

constexpr std::uint16_t envelope_type = 1;

net::const_part part_of(const wire_part& p) {
  if (!p.region) return {p.data, p.bytes, p.owner, nullptr, 0, p.payload};
  const auto offset = static_cast<std::size_t>(static_cast<const std::byte*>(p.data) - p.region->base);
  return {nullptr, p.bytes, p.owner, p.region, offset, p.payload};
}

}  // namespace

net::outgoing_frame to_frame(const envelope& e) {
  net::outgoing_frame f;
  f.type = envelope_type;
  f.source = index_of(e.h.src);
  f.destination = index_of(e.h.dst);
  f.id = static_cast<std::uint64_t>(e.h.id);
  for (const auto& p : encode(e)) f.parts.push_back(part_of(p));
  return f;
}

expected<void> from_frame(const net::frame& f, envelope& out) {
  if (f.type != envelope_type) return unexpected(error("only frames with messages between roles are accepted"));
  std::vector<wire_piece> elsewhere;
  elsewhere.reserve(f.shared.size());
  for (const auto& p : f.shared) elsewhere.push_back({p.at, p.bytes, p.data.get(), p.data});
  if (auto read = decode(f.payload.get(), f.bytes, f.payload, out, elsewhere); !read) return read;
  if (!has_values(out)) return unexpected(error(std::string(name_of(out.body)) + ": a tensor has no values"));
  return {};
}

}  // namespace troupe
