// Converts exchange messages to and from transport frames; used by client and daemon.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "runtime/exchange/hub/wire.hpp"
#include "runtime/node/net/transport.hpp"

namespace troupe::exchange {

// Largest payload that either end accepts: one piece and its header, with a margin.
inline constexpr std::uint64_t max_frame = std::uint64_t{2} << 20;

inline net::outgoing_frame to_frame(const message& m) {
  auto e = encode(m);
  const auto head = std::make_shared<const std::string>(std::move(e.head));
  net::outgoing_frame f;
  f.type = e.type;
  f.parts.push_back({head->data(), head->size(), head});
  if (e.tail.size != 0) f.parts.push_back({e.tail.data, e.tail.size, e.tail.owner});
  return f;
}

inline std::optional<message> from_frame(const net::frame& f) { return decode(f.type, {f.payload.get(), f.bytes}, f.payload); }

}  // namespace troupe::exchange
