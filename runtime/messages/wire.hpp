// An envelope as bytes. Little-endian, version 4:
//
//   0   header       62   its fields in the order of message.hpp, packed
//   62  version       1   wire_version
//   63  body          1   index of the alternative in troupe::message
//   64  zero          2
//   66  fields        4   length of what follows
//   70  the body's fields in the order of its struct; strings, lists: u32 count, then the elements;
//       bool: one byte, 0 or 1; f64: its bits
//       tensor: u8 state (0 empty, 1 declared, 2 backed), u8 dtype, u8 rank, u8 zero, rank x i64 extents
//   --  payloads of the backed tensors in order, each at the next multiple of 64, zeros between; nothing after the last
//
// Cost: 70 bytes + fields + payloads + at most 63 bytes of padding per tensor. Payloads are never
// copied: encode() refers to them, and decode() makes tensors that view the received buffer.
// Errors: decode() is total. Any bytes are answered by true or by a message; memory stays
// proportional to the input.
// Threads: functions without state.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ops/memory_region.hpp"
#include "runtime/messages/limits.hpp"
#include "runtime/messages/message.hpp"

namespace troupe {

constexpr std::uint8_t wire_version = 4;
constexpr std::size_t wire_prefix_bytes = 70;
constexpr std::size_t wire_alignment = 64;
constexpr std::uint32_t wire_max_tensors = 1u << 16;  // in one list of a message

// A piece of an encoded message, for scatter/gather. `owner` keeps it alive; null for constants.
// `region`: that it lies in, if any, for transports that need not read it. `payload`: it is one
// tensor's payload, so that decode() takes it as a wire_piece too. No other part may become one.
struct wire_part {
  const void* data = nullptr;
  std::size_t bytes = 0;
  std::shared_ptr<const void> owner{};
  std::shared_ptr<const memory_region> region{};
  bool payload = false;
};

// A tensor's payload that does not stand with the rest of the message: its bytes are [at, at +
// bytes) of the message. What comes after lies bytes / 64 * 64 further to the front than it would.
struct wire_piece {
  std::size_t at = 0, bytes = 0;
  const void* data = nullptr;  // aligned to 64
  std::shared_ptr<const void> owner{};
};

// A body that never leaves its host: finished.
bool host_only(const message& m);

// The parts in order; the concatenation is the message. Empty for host-only bodies. Tensors must
// stay unwritten until the owners drop (freeze them: what has been sent is immutable).
std::vector<wire_part> encode(const envelope& e);

// Reads exactly [data, data + bytes). `data` must be 64-byte aligned when tensors have payloads;
// they view it and share `owner`. `elsewhere`, in order, are payloads that lie somewhere else; each
// must be a whole tensor's.
// False: `error` says what is wrong and `out` is unchanged.
bool decode(const void* data, std::size_t bytes, std::shared_ptr<const void> owner, envelope& out, std::string& error,
            std::span<const wire_piece> elsewhere = {});

}  // namespace troupe
