// Transport between nodes of one process. A frame is copied once, into the receiver's pool. A frame
// whose payload is a single part in a region, aligned to 64 bytes, is not copied: the receiver
// reads it in place. The guarantees are those of every transport (transport.hpp;
// tests/node/transport_conformance_test.cpp). There are no certificates, because all nodes share
// one address space.
//
// Nodes of one process meet in a hub, where addresses are only names. Each transport has a thread,
// which runs its callbacks and its dials.
#pragma once

#include <memory>

#include "runtime/node/net/tcp_transport.hpp"

namespace troupe::net {

// The registry in which the nodes of one process find each other. Any thread. Its transports keep
// it alive.
class local_hub;
std::shared_ptr<local_hub> make_local_hub();

// Ignores the options about certificates, heartbeats and unauthenticated connections. Errors:
// "bad_option".
expected<std::unique_ptr<transport>> make_local_transport(tcp_options options, std::shared_ptr<local_hub> hub, callbacks events);

// Returns true if a node in the hub listens there. Used to choose the transport of a peer.
bool reaches(const local_hub& hub, const address& where);

}  // namespace troupe::net
