// All transports of a node behind one interface: a table in order of preference. Each peer is
// reached by the first transport that can reach it. A new transport is one file and one entry.
//
// The guarantees of transport.hpp hold for all of them together: callbacks of all transports run
// one at a time, and a peer is up on one transport only.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/node/net/tcp_transport.hpp"

namespace troupe::net {

class local_hub;

struct transport_descriptor {
  std::string name, doc;
  std::function<expected<std::unique_ptr<transport>>(const tcp_options&, callbacks)> make;
  std::function<bool(const std::string& peer, const address& where)> reaches;  // called when a peer is dialled
};

transport_descriptor tcp_descriptor();                                  // reaches any node
transport_descriptor local_descriptor(std::shared_ptr<local_hub> hub);  // reaches nodes that listen in this process

// The transports of a daemon: tcp.
std::vector<transport_descriptor> stock_transports();

// listen() binds the last entry first, and the others to the address that it got. Errors: those of
// the entries.
expected<std::unique_ptr<transport>> make_transports(std::vector<transport_descriptor> entries, const tcp_options& options,
                                                     callbacks events);

}  // namespace troupe::net
