// The data plane: frames between named nodes. tests/node/transport_conformance_test.cpp checks the
// invariants for every implementation.
//
// Invariants
//  - Frames from one node to another arrive whole and once, until on_peer_down; frames that are
//    queued then are lost. Frames of one pair (source, destination) arrive in the order of send().
//    Frames of different pairs may overtake each other: a small frame does not wait behind a large
//    one of another pair, neither for its bytes nor for its part of the window. Senders that set
//    neither source nor destination (the control plane, the exchange) use one pair, in order.
//  - on_peer_up(p) comes before the first on_frame(p), on_peer_down(p) after the last. Callbacks
//    run one at a time, on the transport's I/O thread: keep them short, never wait in them, never
//    call close() in them. No callback runs after close() has returned.
//  - A receiver grants each peer a window of bytes: an eighth for small frames, the rest for large
//    ones. A frame takes its bytes out of its part when it starts and returns them when the last
//    handle of its payload is dropped. A frame may start while any of its part is left, so a
//    receiver holds at most window + one large and one small frame per peer, and a frame larger
//    than the window can still be sent.
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
#include "runtime/access/roles.hpp"
#include "runtime/base/result.hpp"

namespace troupe::net {

// Bytes to send, and the owner that keeps them alive and unchanged until it is dropped. The bytes
// are at `data` or, if `region` is set, bytes [offset, offset + bytes) of the region; `data` is
// then ignored. A transport reads them from the region, or passes a reference to it.
// `may_be_shared`: the receiver may get this part as a separate piece (frame::shared). All other
// parts are sent as bytes.
struct const_part {
  const void* data = nullptr;
  std::size_t bytes = 0;
  std::shared_ptr<const void> owner{};
  std::shared_ptr<const memory_region> region{};
  std::size_t offset = 0;
  bool may_be_shared = false;
};

// Types from this value on are reserved for the transport; send() refuses them.
inline constexpr std::uint16_t first_reserved_type = 0xff00;

struct shared_slip;  // memory_sharing.hpp

struct outgoing_frame {
  std::uint16_t type = 0;
  std::uint16_t flags = 0;
  std::uint32_t destination = 0;  // the actor on the peer
  std::uint64_t id = 0;
  std::vector<const_part> parts;          // concatenated to one payload
  std::uint32_t source = 0;               // the actor here, not sent; with `destination` the pair whose order is kept
  std::shared_ptr<shared_slip> shared{};  // set by the transport
};

// Largest payload of a small frame, in bytes.
inline constexpr std::uint64_t small_frame = std::uint64_t{64} << 10;

// A piece of a received frame in the sender's memory (memory_sharing.hpp). The sender keeps it
// unchanged while `data` is alive.
struct shared_piece {
  std::size_t at = 0;  // offset in the frame's bytes; a multiple of 64
  std::size_t bytes = 0;
  std::shared_ptr<const std::byte> data;  // aligned to 64
};
// Bytes of a piece that `payload` omits. `payload` contains the remaining bytes as padding, so that
// the bytes after the piece keep their position modulo 64.
constexpr std::size_t bytes_elsewhere(const shared_piece& p) { return p.bytes / 64 * 64; }

// A received frame. The payload is one block, aligned to 64 bytes, from a pool or in a region of
// the sender, which it keeps alive. `payload` is never null, even for zero bytes, because it also
// carries the frame's credit; it may outlive the transport. Do not write to it: the sender may see
// the bytes.
struct frame {
  std::uint16_t type = 0;
  std::uint16_t flags = 0;
  std::uint32_t destination = 0;
  std::uint64_t id = 0;
  std::size_t bytes = 0;  // of `payload`
  std::shared_ptr<std::byte> payload;
  // Only if tcp_options::shares is set, from peers on this machine: the frame's bytes are those of
  // `payload` with these pieces inserted at their offsets, in order. whole() returns a copy of all
  // bytes.
  std::vector<shared_piece> shared{};
};
std::vector<std::byte> whole(const frame& f);

// Error code for on_frame to return when its receiver cannot decode a frame. The message names the
// peer, the frame's type and sizes, and `why`.
inline constexpr const char* unreadable_frame = "unreadable_frame";
coded_error unreadable(const std::string& peer, const frame& f, const std::string& why);

// Returns the frame's credit to its sender now, while the memory stays alive. For a receiver whose
// protocol already bounds what it holds (activations held until the backward pass): otherwise the
// backward could wait for credit that only the backward frees. Accepts any copy of the payload's
// shared_ptr, aliased ones too; a second call does nothing.
void release_credit(const std::shared_ptr<const void>& payload);

struct address {
  std::string host;  // a numeric address or a host name
  std::uint16_t port = 0;
  bool operator==(const address&) const = default;
};
expected<address, coded_error> parse_address(std::string_view text);  // "10.0.0.1:4000", "[::1]:4000", "host:4000"
std::string to_string(const address& a);

struct callbacks {
  // An error ends the connection with this reason: further frames of the peer are dropped, and
  // on_peer_down follows.
  std::function<expected<void, coded_error>(const std::string& peer, frame&&)> on_frame;
  std::function<void(const std::string& peer, std::uint64_t incarnation)> on_peer_up;
  // Called before on_peer_up if the peer has proved its identity: the role in its certificate
  // (runtime/access/roles.hpp). May be empty.
  std::function<void(const std::string& peer, certificate_role role)> on_proved{};
  // Also called after a failed connect(): code "connect_deadline", or at once an error that a retry
  // cannot fix ("certificate_refused").
  std::function<void(const std::string& peer, const coded_error& reason)> on_peer_down;
  std::function<void(const std::string& line)> log;  // for operators; any thread; may be empty
};

// Counters add up over reconnections. Bytes are those of data frames, headers included, without
// heartbeats and credit.
struct peer_stats {
  std::string peer;
  std::string transport;  // that reaches it: "tcp", or "shm" (tcp with shared buffers)
  std::string why_not;    // "tcp": why no memory is shared; empty if it was not requested
  std::uint64_t incarnation = 0;
  bool up = false;
  std::uint64_t bytes_in = 0, bytes_out = 0;
  std::uint64_t frames_in = 0, frames_out = 0;
  std::uint64_t shared_in = 0;     // of bytes_in: payload read in the sender's memory, without a copy
  double round_trip = 0;           // seconds that the last probe took to the peer and back; 0: unknown
  std::uint64_t queued_bytes = 0;  // payload accepted by send(), not yet written
  std::uint64_t queued_frames = 0;
  std::uint64_t unreturned = 0;  // sent, credit not yet returned by the peer
  std::uint64_t held = 0;        // received, handles not yet dropped
};

struct transport_stats {
  std::vector<peer_stats> peers;
  std::uint64_t refused = 0;       // connections closed before they were authenticated
  std::uint64_t pending = 0;       // connections that are not yet authenticated
  std::uint64_t pooled_bytes = 0;  // free blocks kept for reuse
};

class transport {
 public:
  virtual ~transport() = default;

  // Binds that address only and returns the bound port (for port 0, the system selects one).
  // Errors: "address_in_use", "address_unavailable", "bad_address", "wildcard_address",
  // "already_listening", "closed".
  virtual expected<std::uint16_t, coded_error> listen(const address& where) = 0;

  // Dials until the peer is up or `within` has passed, then calls on_peer_down. Returns at once.
  // Does nothing if the peer is up. If the peer is being dialled at that address, only its deadline
  // moves. A connection that is lost later is not dialled again. An empty name connects to any node
  // at that address.
  virtual void connect(const std::string& peer, const address& where, std::chrono::milliseconds within) = 0;

  // Queues the frame; never blocks. Returns false if the peer is not up, or (with a log line) if
  // the type is reserved, the payload exceeds the peer's limit, or a part is outside its region or
  // in memory that the host cannot read. The protocols above send on credit, so the queue stays
  // short. A queue longer than tcp_options::max_queued (empty frames count too) ends the connection
  // with code "queue_full", so that memory does not grow for a slow peer. stats() shows the queue.
  virtual bool send(std::string_view peer, outgoing_frame&& f) = 0;

  // Sets the bytes that may be queued for this peer, instead of tcp_options::max_queued, until the
  // connection ends. Does nothing if the peer is not up.
  virtual void limit(const std::string& peer, std::uint64_t bytes) = 0;

  // Ends the connection; on_peer_down follows with code "disconnected".
  virtual void disconnect(const std::string& peer) = 0;

  // Reads the certificates again. New connections use the new ones. Existing connections stay,
  // except those whose peers' certificates have been revoked, which end ("certificate_revoked"). On
  // an error nothing changes.
  virtual expected<void, coded_error> reload_certificates() { return {}; }

  virtual transport_stats stats() const = 0;

  // Frees payload memory that was not used since the last call, so two calls free all that is
  // unused now. Returns the bytes freed.
  virtual std::uint64_t release_unused() { return 0; }

  // Sends a goodbye, sends queued frames for a short time, drops the rest and joins all threads.
  // Idempotent.
  virtual void close() = 0;
};

}  // namespace troupe::net
