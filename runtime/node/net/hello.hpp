// What two nodes tell each other before anything else, and the transport's own frame types.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/node/net/error.hpp"
#include "runtime/node/net/shared_arena.hpp"
#include "runtime/node/net/transport.hpp"

namespace troupe::net {

enum class control_type : std::uint16_t {
  hello = first_reserved_type,  // payload: a hello
  welcome,                      // the judge's yes
  refuse,                       // payload: code, newline, message; the sender closes after it
  heartbeat,
  credit,        // destination: frame_class; id: bytes given back to it
  goodbye,       // the sender closes after it, on purpose
  reads_shared,  // the sender can read the memory that the hello named: it may be lent to
  returned       // payload: numbers (u64) of loans that are not read any more
};

// 2: streams, and a window in two parts. 3: loans.
inline constexpr std::uint16_t protocol_version = 3;

struct hello {
  std::uint16_t protocol = protocol_version;
  std::uint64_t incarnation = 0;
  std::uint64_t window = 0;     // what this node lets the other have outstanding
  std::uint64_t max_frame = 0;  // what this node accepts as one payload
  std::string cluster, node;
  std::string wanted;  // whom the sender has dialled; empty from the side that was dialled
  memory_at memory;    // that the sender lends; without bytes: none
};

// 1 to 63 of [A-Za-z0-9._-], not starting with '.' or '-': fits a certificate's common name, a file
// name and a log line.
bool valid_node_name(std::string_view name);

// A client's certificate is made out to "client", or to "client.NAME" for somebody in particular.
// Each session calls itself by that and one more word, so that several may be up at once:
// "client.<word>", "client.NAME.<word>".
bool is_operator(std::string_view name);
bool valid_operator_name(std::string_view name);    // NAME, or "client": 1 to 32 of [A-Za-z0-9_-]
std::string operator_of(std::string_view session);  // NAME, or "client"
bool may_be_called(std::string_view name,
                   std::string_view common_name);  // with a certificate made out to that: a session, or a node

// Of two that meet, the one whose name is smaller decides whether the connection stays; a node
// always, where an operator dials it.
bool wins_tie_break(std::string_view a, std::string_view b);

std::vector<std::byte> encode_hello(const hello& h);
expected<hello> decode_hello(std::span<const std::byte> bytes);  // "bad_hello", "protocol_version"

std::vector<std::byte> encode_refusal(const error& e);
error decode_refusal(std::span<const std::byte> bytes);  // control characters are replaced: the text may be logged

}  // namespace troupe::net
