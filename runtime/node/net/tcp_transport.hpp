// Transport over TCP with mutual TLS 1.3, one connection per pair of nodes, one I/O thread. There
// is no plain mode.
//
// A connection's life
//   handshake   TLS; both certificates must come from the cluster's CA
//   greeting    both send hello{protocol, cluster, node, incarnation, window}; the node must be the certificate's common name
//   blessing    the node whose name is smaller decides: welcome, or refuse{duplicate}. One judge, so two nodes that dial each
//               other at the same moment agree on the one connection that stays, before either sends data over it.
//   up          data, credit, heartbeats; any byte counts as life, so a slow large frame is never taken for a death (promise 3)
// Handshake, greeting and blessing together have 5 s (promise 17).
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "ops/arena.hpp"
#include "runtime/node/net/line_faults.hpp"
#include "runtime/node/net/shared_arena.hpp"
#include "runtime/node/net/transport.hpp"

namespace troupe::net {

struct tcp_options {
  std::string cluster;
  std::string node;               // must be the certificate's common name, or a client's and ".<word>" (hello.hpp)
  std::uint64_t incarnation = 1;  // grows with each start of the node: lower ones are refused
  // Incarnations are milliseconds of the node's clock. One further ahead of ours than this is not
  // believed ("incarnation_ahead"): remembered, it would keep the node out for ever. Certificates,
  // which begin a day in the past, ask no more of the clocks.
  std::chrono::milliseconds incarnation_ahead = std::chrono::hours(24);
  std::filesystem::path ca, certificate, key;

  std::uint64_t max_frame = std::uint64_t{1} << 30;  // a header that claims more closes the connection before anything is allocated
  std::uint64_t window = std::uint64_t{64} << 20;    // what a peer may have here, undropped
  // Accepted by send() and not written, frame_overhead for each frame included: more closes the
  // connection ("queue_full").
  std::uint64_t max_queued = std::uint64_t{8} << 30;
  std::uint64_t max_queued_operator = std::uint64_t{8}
                                      << 20;  // the same for a session of an operator; transport::limit() changes it
  std::uint64_t pool_keep = std::uint64_t{256} << 20;
  std::shared_ptr<arena> memory;  // where payloads that come are put, while it has some; none: the heap
  // Large parts of frames are lent to peers of this machine that can read it, and theirs are read
  // where they lie (memory_sharing.hpp): whoever sets it looks at frame::shared. Null: no memory is
  // shared in either direction.
  std::shared_ptr<shared_arena> shares{};
  std::chrono::milliseconds heartbeat{500};
  // Without any byte for so long, and a heartbeat more at the most, the peer is down. Long enough
  // for packets that have been lost for three seconds to be sent again, and a death within five
  // (promises 2 and 3).
  std::chrono::milliseconds silence{4000};
  std::chrono::milliseconds stalled{10000};  // it sends, and takes no byte of what is written to it: the peer is down
  std::chrono::milliseconds handshake{5000};
  std::chrono::milliseconds linger{250};  // for close() to let queued frames out
  bool operators = false;                 // are clients' sessions let in? Never on the data plane
  // Such sessions at a time; the last sixteenth of them is admins' alone, so that no other client
  // keeps those out ("too_many_clients").
  std::size_t max_operators = 1024;
  std::size_t max_pending = 256;                   // unauthenticated inbound connections; one more closes the oldest
  std::shared_ptr<const line_faults> faults = {};  // that people inject; none: nobody can
};

// Errors: those of check_certificate() (certificates.hpp), "name_mismatch", "bad_option".
expected<std::unique_ptr<transport>> make_tcp_transport(tcp_options options, callbacks events);

}  // namespace troupe::net
