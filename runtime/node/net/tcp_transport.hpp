// Transport over TCP with mutual TLS 1.3, one connection per pair of nodes, one I/O thread. There
// is no plain mode.
//
// Phases of a connection
//   handshake    TLS; both certificates must come from the cluster's CA
//   greeting     both send hello{protocol, cluster, node, incarnation, window}; the node must be
//                the certificate's common name
//   acceptance   the node with the smaller name decides: welcome, or refuse{duplicate}. Only one
//                end decides, so two nodes that dial each other at the same moment agree on the
//                connection that stays, before either sends data over it.
//   up           data, credit, heartbeats; any byte shows that the peer is alive, so a slow large
//                frame is never taken for a node failure (promise 3)
// Handshake, greeting and acceptance together may take 5 s (promise 17). A node dials a few peers
// at a time; the others wait for their turn.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "ops/arena.hpp"
#include "runtime/base/result.hpp"
#include "runtime/node/net/line_faults.hpp"
#include "runtime/node/net/shared_arena.hpp"
#include "runtime/node/net/transport.hpp"

namespace troupe::net {

// size: options of one transport; each has a default or is required
struct tcp_options {
  std::string cluster;
  std::string node;               // the certificate's common name, or a client's and ".<word>" (hello.hpp)
  std::uint64_t incarnation = 1;  // grows with each start of the node: lower ones are refused
  // Incarnations are milliseconds of the node's clock. One that is further ahead of this node's
  // clock is refused ("incarnation_ahead"): if it were remembered, the node could not return later.
  // Certificates, valid from one day before their issue, tolerate the same clock error.
  std::chrono::milliseconds incarnation_ahead = std::chrono::hours(24);
  std::filesystem::path ca, certificate, key;

  std::uint64_t max_frame =
      std::uint64_t{1} << 30;                      // a header that announces more closes the connection before memory is allocated
  std::uint64_t window = std::uint64_t{64} << 20;  // bytes that a peer may have outstanding at this node
  // Bytes accepted by send() and not yet written, with frame_overhead for each frame. More closes
  // the connection ("queue_full").
  std::uint64_t max_queued = std::uint64_t{8} << 30;
  // The same for a session of an operator; transport::limit() changes it.
  std::uint64_t max_queued_operator = std::uint64_t{8} << 20;
  std::uint64_t pool_keep = std::uint64_t{256} << 20;
  std::shared_ptr<arena> memory;  // for received payloads, while it has space; null: the heap
  // Large parts of frames are shared with peers of this machine that can read it, and theirs are
  // read in place (memory_sharing.hpp). A receiver that sets it must handle frame::shared. Null: no
  // memory is shared in either direction.
  std::shared_ptr<shared_arena> shares{};
  std::chrono::milliseconds heartbeat{500};
  // A peer is down if no byte arrives for this time, plus at most one heartbeat. Long enough to
  // retransmit packets that were lost during three seconds, short enough to detect a node failure
  // within five (promises 2 and 3).
  std::chrono::milliseconds silence{4000};
  std::chrono::milliseconds stalled{10000};  // a peer that sends, but accepts no written byte for this time, is down
  std::chrono::milliseconds handshake{5000};
  // Peers that this node dials at the same time; further ones wait for their turn (dial_queue.hpp).
  std::size_t dials_at_once = 8;
  std::chrono::milliseconds linger{250};  // for close() to send queued frames
  bool operators = false;                 // whether sessions of clients are accepted; never on the data plane
  // Maximum number of such sessions. The last sixteenth is reserved for admins, so that other
  // clients cannot keep them out ("too_many_clients").
  std::size_t max_operators = 1024;
  std::size_t max_pending = 256;                   // unauthenticated inbound connections; one more closes the oldest
  std::shared_ptr<const line_faults> faults = {};  // injected faults; null: none can be injected
};

// Errors: those of check_certificate() (certificates.hpp), "name_mismatch", "bad_option".
expected<std::unique_ptr<transport>, coded_error> make_tcp_transport(tcp_options options, callbacks events);

}  // namespace troupe::net
