#include "runtime/node/net/payload.hpp"

#include <string>

namespace troupe::net {
namespace {

coded_error refused(const outgoing_frame& f, std::string code, const std::string& why) {
  return {std::move(code), "[net] a frame of type " + std::to_string(f.type) + " cannot be sent: " + why};
}

// Sets `p.data`. An error if the part cannot be read.
expected<void> place(const_part& p) {
  if (p.region) {
    if (!p.region->holds(p.offset, p.bytes))
      return unexpected(error(std::to_string(p.bytes) + " bytes from offset " + std::to_string(p.offset) + " exceed a region of " +
                              std::to_string(p.region->bytes)));
    if (!p.region->readable()) return unexpected(error("a part is in device memory, which the host cannot read"));
    p.data = p.region->base + p.offset;
  }
  if (p.bytes > 0 && p.data == nullptr) return unexpected(error("a part has no data"));
  return {};
}

}  // namespace

expected<std::uint64_t, coded_error> prepare(outgoing_frame& f, std::uint64_t max_frame) {
  if (f.type >= first_reserved_type) return unexpected(refused(f, "reserved_type", "the type is reserved for the transport"));
  std::uint64_t bytes = 0;
  for (const_part& p : f.parts) {
    if (p.bytes > max_frame - bytes)
      return unexpected(
          refused(f, "frame_too_large", "it has more than the " + std::to_string(max_frame) + " bytes that the peer accepts"));
    bytes += p.bytes;
  }
  for (const_part& p : f.parts)
    if (const auto placed = place(p); !placed) return unexpected(refused(f, "bad_part", placed.error().text));
  return bytes;
}

std::vector<std::byte> whole(const frame& f) {
  std::vector<std::byte> out;
  std::size_t from = 0;
  const auto add = [&out](const std::byte* at, std::size_t n) { out.insert(out.end(), at, at + n); };
  for (const auto& p : f.shared) {
    const auto before = p.at - out.size();
    add(f.payload.get() + from, before);
    add(p.data.get(), p.bytes);
    from += before + p.bytes - bytes_elsewhere(p);
  }
  add(f.payload.get() + from, f.bytes - from);
  return out;
}

coded_error unreadable(const std::string& peer, const frame& f, const std::string& why) {
  std::size_t all = f.bytes, shared = 0;
  for (const auto& p : f.shared) {
    all += bytes_elsewhere(p);
    shared += p.bytes;
  }
  return {unreadable_frame, "[net] " + peer + " sent a frame that cannot be decoded (type " + std::to_string(f.type) + ", " +
                                std::to_string(all) + " bytes, " + std::to_string(shared) + " of them shared): " + why};
}

}  // namespace troupe::net
