// The greeting, which both ends of a connection send first, and the transport's control frames.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/access/names.hpp"
#include "runtime/base/result.hpp"
#include "runtime/node/net/shared_arena.hpp"
#include "runtime/node/net/transport.hpp"

namespace troupe::net {

enum class control_type : std::uint16_t {
  hello = first_reserved_type,  // payload: a hello
  welcome,                      // the connection is accepted; from the node that decides (wins_tie_break)
  refuse,                       // payload: code, newline, message; the sender closes after it
  heartbeat,
  credit,        // destination: frame_class; id: bytes of credit returned
  goodbye,       // orderly shutdown; the sender closes after it
  reads_shared,  // the sender has mapped the memory named in the hello and may get shared buffers
  returned,      // payload: numbers (u64) of shared buffers that the sender no longer reads
  probe,         // id: any number; the receiver answers by an echo with this number
  echo
};

// Version 2 added streams and the window in two parts, version 3 shared buffers, version 4 probes.
inline constexpr std::uint16_t protocol_version = 4;

struct hello {
  std::uint16_t protocol = protocol_version;
  std::uint64_t incarnation = 0;
  std::uint64_t window = 0;     // bytes that the peer may have outstanding at this node
  std::uint64_t max_frame = 0;  // the largest payload that this node accepts
  std::string cluster, node;
  std::string wanted;  // the node that the sender dialled; empty: dialled without a name, or was dialled itself
  memory_at memory;    // the sender's shared memory; bytes == 0: none
};

std::vector<std::byte> encode_hello(const hello& h);
expected<hello, coded_error> decode_hello(std::span<const std::byte> bytes);  // "bad_hello", "protocol_version"

std::vector<std::byte> encode_refusal(const coded_error& e);
coded_error decode_refusal(std::span<const std::byte> bytes);  // control characters are replaced: the text may be logged

}  // namespace troupe::net
