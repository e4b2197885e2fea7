// Encoding of exchange messages. A message travels as one frame of a net::transport: frame type =
// first_type + index of the alternative; payload = the fields in order, numbers little-endian, a
// text as u32 length and its bytes, a piece's data as the rest.
//
// decode() accepts any bytes and returns a message or nullopt. It allocates no more than the
// input's size, and does not copy a piece's data (the view shares its owner). Every accepted input
// encodes to the same bytes.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "runtime/exchange/hub/message.hpp"

namespace troupe::exchange {

inline constexpr std::uint16_t first_type = 0x4000;
inline constexpr bool is_exchange_type(std::uint16_t t) { return t >= first_type && t < first_type + std::variant_size_v<message>; }

struct encoded {
  std::uint16_t type = 0;
  std::string head;
  view tail;  // a piece's data
};
encoded encode(const message& m);
std::optional<message> decode(std::uint16_t type, std::span<const std::byte> payload, std::shared_ptr<const void> owner);

}  // namespace troupe::exchange
