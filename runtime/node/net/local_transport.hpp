// Transport between nodes of one process: a frame is copied once, into the receiver's pool; one
// whose payload is a single part in a region, aligned to 64, not at all: the receiver has it where
// it lies. The same promises as every transport (transport.hpp;
// tests/node/transport_conformance_test.cpp). No certificates: who shares our memory is us.
//
// Nodes of one process meet in a hub, where addresses are names. Each transport has a thread, which
// runs its callbacks and its dials.
#pragma once

#include <memory>

#include "runtime/node/net/tcp_transport.hpp"

namespace troupe::net {

// Where the nodes of one process find each other. Any thread; outlives none of its transports.
class local_hub;
std::shared_ptr<local_hub> make_local_hub();

// Of the options those about certificates, heartbeats and strangers have no meaning here. Errors:
// "bad_option".
expected<std::unique_ptr<transport>> make_local_transport(tcp_options options, std::shared_ptr<local_hub> hub, callbacks events);

// Does anybody in the hub listen there? For whoever chooses a transport for a peer.
bool reaches(const local_hub& hub, const address& where);

}  // namespace troupe::net
