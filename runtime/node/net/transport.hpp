// The data plane: frames between named nodes. One interface, several transports (transports.hpp:
// their table), chosen per peer; what all of them keep is in
// tests/node/transport_conformance_test.cpp.
//
// Invariants
//  - Frames from one node to another arrive whole and once, until on_peer_down; what was queued
//    then is lost. Those of one pair (source, destination) arrive in the order of send(); others
//    overtake: a small frame does not wait behind a large one of another pair, neither for its
//    bytes nor for its part of the window. Who names neither source nor destination (the control
//    plane, the exchange) has one pair, and all in order.
//  - on_peer_up(p) comes before the first on_frame(p), on_peer_down(p) after the last. Callbacks
//    run one at a time, on the
//  transport's
//    own I/O thread: keep them short, never wait in them, never call close() in them. None comes after close() has returned.
//  - A receiver grants each peer a window of bytes; an eighth of it is for small frames, the rest
//    for large ones. A frame takes its bytes out of its part when it starts and gives them back
//    when the last handle of its payload drops. A frame starts while any of its part is left, so a
//    receiver holds at most window + one large and one small frame per peer, and a frame larger
//    than the window still travels.
//  - No exception crosses this interface.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ops/memory_region.hpp"
#include "runtime/node/net/error.hpp"
#include "runtime/node/pki/roles.hpp"

namespace troupe::net {

// Bytes to send, and what keeps them alive and unchanged until it is dropped. Either by pointer, or
// as a piece of a region: then they are its [offset, offset + bytes), and `data` is not looked at.
// Who does not know the region reads it; who does need not. `may_be_shared`: the receiver of such a
// frame takes this part as a piece of its own (frame::shared). All other parts always travel as
// bytes.
struct const_part {
  const void* data = nullptr;
  std::size_t bytes = 0;
  std::shared_ptr<const void> owner{};
  std::shared_ptr<const memory_region> region{};
  std::size_t offset = 0;
  bool may_be_shared = false;
};

// Types from here up belong to the transport itself; send() refuses them.
inline constexpr std::uint16_t first_reserved_type = 0xff00;

struct shared_slip;  // memory_sharing.hpp

struct outgoing_frame {
  std::uint16_t type = 0;
  std::uint16_t flags = 0;
  std::uint32_t destination = 0;  // the actor on the peer
  std::uint64_t id = 0;
  std::vector<const_part> parts;          // sent one after another as one payload
  std::uint32_t source = 0;               // the actor here; with `destination` the pair whose order is kept. It does not travel
  std::shared_ptr<shared_slip> shared{};  // the transport's own
};

// Up to here a frame is small.
inline constexpr std::uint64_t small_frame = std::uint64_t{64} << 10;

// A piece of a received frame that lies with its sender (memory_sharing.hpp), who keeps it there as
// it is while `data` lives.
struct shared_piece {
  std::size_t at = 0;  // of the frame's bytes; a multiple of 64
  std::size_t bytes = 0;
  std::shared_ptr<const std::byte> data;  // aligned to 64
};
// What of it `payload` has no room for: the rest of its bytes stand there unused, so that what
// follows lies as before modulo 64.
constexpr std::size_t bytes_elsewhere(const shared_piece& p) { return p.bytes / 64 * 64; }

// A received frame: the payload is one block, aligned to 64 bytes, from a pool or in a region of
// the sender's, which it keeps alive. `payload` is never null, even for zero bytes, because it also
// carries the frame's credit; it may outlive the transport. It is never written: its sender may see
// it.
struct frame {
  std::uint16_t type = 0;
  std::uint16_t flags = 0;
  std::uint32_t destination = 0;
  std::uint64_t id = 0;
  std::size_t bytes = 0;  // of `payload`
  std::shared_ptr<std::byte> payload;
  // Only where tcp_options::shares is set, from peers of this machine: the frame's bytes are those
  // of `payload` with these put in at their places, in order. whole() puts them together, for who
  // would rather copy than look.
  std::vector<shared_piece> shared{};
};
std::vector<std::byte> whole(const frame& f);

// What on_frame returns of a frame that its receiver cannot decode. The message names the peer, the
// frame's type and sizes, and `why`.
inline constexpr const char* unreadable_frame = "unreadable_frame";
error unreadable(const std::string& peer, const frame& f, const std::string& why);

// Returns the frame's bytes to its sender now, while the memory lives on. For a receiver whose own
// protocol already bounds what it keeps (activations held until the backward comes): otherwise the
// backward could wait for credit that only the backward frees. Any copy of the payload's shared_ptr
// will do, aliased ones too; the second call does nothing.
void release_credit(const std::shared_ptr<const void>& payload);

struct address {
  std::string host;  // a numeric address or a host name
  std::uint16_t port = 0;
};
expected<address> parse_address(std::string_view text);  // "10.0.0.1:4000", "[::1]:4000", "host:4000"
std::string to_string(const address& a);

struct callbacks {
  // An error ends the connection with this reason: the peer's further frames are dropped, and
  // on_peer_down follows.
  std::function<expected<void>(const std::string& peer, frame&&)> on_frame;
  std::function<void(const std::string& peer, std::uint64_t incarnation)> on_peer_up;
  // Before on_peer_up, where the peer has proved it: what its certificate says of it
  // (pki/roles.hpp). May be empty.
  std::function<void(const std::string& peer, certificate_role role)> on_proved{};
  // Also the answer to a connect() that failed: code "connect_deadline", or at once what no retry
  // can mend ("certificate_refused").
  std::function<void(const std::string& peer, const error& reason)> on_peer_down;
  std::function<void(const std::string& line)> log;  // for operators; any thread; may be empty
};

// Counters grow over reconnections; bytes are those of data frames, headers included, without
// heartbeats and credit.
struct peer_stats {
  std::string peer;
  std::string transport;  // that reaches it: "tcp", "local", "shm" (tcp, and large parts are lent)
  std::string why_not;    // "tcp": why nothing is lent; empty where nobody meant to
  std::uint64_t incarnation = 0;
  bool up = false;
  std::uint64_t bytes_in = 0, bytes_out = 0;
  std::uint64_t frames_in = 0, frames_out = 0;
  std::uint64_t shared_in = 0;     // of bytes_in: payload that came without a copy, in a region of the sender's
  std::uint64_t queued_bytes = 0;  // payload accepted by send(), not yet on its way
  std::uint64_t queued_frames = 0;
  std::uint64_t unreturned = 0;  // on its way or there, credit not yet returned by the peer
  std::uint64_t held = 0;        // received, handles not yet dropped
};

struct transport_stats {
  std::vector<peer_stats> peers;
  std::uint64_t refused = 0;       // connections closed before they were authenticated
  std::uint64_t pending = 0;       // not yet authenticated now
  std::uint64_t pooled_bytes = 0;  // free blocks kept for reuse
};

// The sums of each transport, by its name. A peer that is no longer listed is no longer counted.
std::map<std::string, peer_stats> by_transport(const transport_stats& s);

class transport {
 public:
  virtual ~transport() = default;

  // Binds that address only and returns the bound port (given 0, the system picks one). Errors:
  // "address_in_use", "address_unavailable", "bad_address", "wildcard_address",
  // "already_listening", "closed".
  virtual expected<std::uint16_t> listen(const address& where) = 0;

  // Dials until the peer is up or `within` has passed, then gives up with on_peer_down. Returns at
  // once. Nothing happens if the peer is up; a connection that is lost later is not dialled again
  // by itself. An empty name reaches whoever answers there.
  virtual void connect(const std::string& peer, const address& where, std::chrono::milliseconds within) = 0;

  // Never blocks: queues. False if the peer is not up (or, logged, if the type is reserved, the
  // payload exceeds the peer's limit, or a part does not lie within its region or where the host
  // can read). The protocols above send on credit, so the queue stays short; where they do not, its
  // own bound (tcp_options::max_queued; empty frames count too) ends the connection with code
  // "queue_full", and memory does not grow behind a peer that is slow. stats() shows it.
  virtual bool send(std::string_view peer, outgoing_frame&& f) = 0;

  // What may wait for this peer from now on, in place of tcp_options::max_queued, until the
  // connection ends. Nothing if the peer is not up.
  virtual void limit(const std::string& peer, std::uint64_t bytes) = 0;

  // Ends the connection; on_peer_down follows with code "disconnected".
  virtual void disconnect(const std::string& peer) = 0;

  // Reads certificates anew: connections that begin from here on prove themselves with what is
  // there now, those that are up stay, but for those whose peers' certificates have been revoked,
  // which end ("certificate_revoked"). An error: everything is as it was.
  virtual expected<void> reload_certificates() { return {}; }

  virtual transport_stats stats() const = 0;

  // Frees the memory kept for payloads that has been unused since the last call: two calls free all
  // that is unused now. Bytes.
  virtual std::uint64_t release_unused() { return 0; }

  // Says goodbye, lets queued frames out for a short while, drops the rest and joins every thread.
  // Idempotent.
  virtual void close() = 0;
};

}  // namespace troupe::net
