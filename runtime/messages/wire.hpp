// Encodes an envelope as bytes. Little-endian; offset, field, bytes:
//
//   0   header       58   its fields in the order of message.hpp, packed
//   58  version       1   wire_version
//   59  body          1   index of the alternative in troupe::message
//   60  zero          2
//   62  fields        4   length of what follows
//   66  the body's fields in the order of its struct; strings, lists: u32 count, then the elements;
//       bool: one byte, 0 or 1; f64: its bits
//       tensor: u8 state (0 empty, 1 declared, 2 backed), u8 dtype, u8 rank, u8 zero,
//       rank x i64 extents
//   --  payloads of the backed tensors in order, each at the next multiple of 64, with zeros
//       between them; no bytes after the last
//
// Cost: 66 bytes + fields + payloads + at most 63 bytes of padding per tensor. Payloads are never
// copied: encode() refers to them, and decode() makes tensors that view the received buffer.
// Errors: decode() accepts any bytes. Its memory is proportional
// to the input.
// Threads: functions without state.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ops/memory_region.hpp"
#include "runtime/base/result.hpp"
#include "runtime/messages/limits.hpp"
#include "runtime/messages/message.hpp"

namespace troupe {

constexpr std::uint8_t wire_version = 11;  // 11: without messages and fields for restarted roles
constexpr std::size_t wire_prefix_bytes = 66;
constexpr std::size_t wire_alignment = 64;
constexpr std::uint32_t wire_max_tensors = 1u << 16;  // in one list of a message

// A part of an encoded message, for scatter/gather I/O. `owner` keeps the bytes alive; null for
// constants. `region`: the memory region that contains them, if any, for transports that share
// memory. `payload`: the part is the payload of one tensor, so a transport may pass it to decode()
// as a wire_piece; other parts must not be passed so.
struct wire_part {
  const void* data = nullptr;
  std::size_t bytes = 0;
  std::shared_ptr<const void> owner{};
  std::shared_ptr<const memory_region> region{};
  bool payload = false;
};

// A tensor's payload that is in other memory instead of the message's buffer. It stands for bytes
// [at, at + bytes) of the message. The buffer has bytes % 64 unused bytes in its place, so that
// later parts stay aligned.
struct wire_piece {
  std::size_t at = 0, bytes = 0;
  const void* data = nullptr;  // aligned to 64
  std::shared_ptr<const void> owner{};
};

// Returns true for `finished`, which is never sent to another node.
bool host_only(const message& m);

// Returns the parts of the message in order; empty for host-only bodies. The tensors must not be
// written while a part holds their owner (see freeze()).
std::vector<wire_part> encode(const envelope& e);

// Decodes exactly [data, data + bytes). If tensors have payloads, `data` must be 64-byte aligned;
// they view it and share `owner`. `elsewhere`: payloads in other memory, in order; each must be
// that of a whole tensor. An error if the bytes are not a valid message: then `out` is
// unchanged.
expected<void> decode(const void* data, std::size_t bytes, std::shared_ptr<const void> owner, envelope& out,
                      std::span<const wire_piece> elsewhere = {});

}  // namespace troupe
