// The transports of a node as one: a table in order of preference, and each peer is reached by the
// first row that can. A new transport is one file and one row.
//
// What transport.hpp promises holds for the whole: callbacks of all rows come one at a time; a peer
// is up by one row only.
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
  std::function<bool(const std::string& peer, const address& where)> reaches;  // asked when a peer is dialled
};

transport_descriptor tcp_descriptor();                                  // reaches everybody
transport_descriptor local_descriptor(std::shared_ptr<local_hub> hub);  // who listens in this process

// Of a daemon: tcp.
std::vector<transport_descriptor> stock_transports();

// listen() binds the last row, and the others to the address that it got. Errors: those of the
// rows.
expected<std::unique_ptr<transport>> make_transports(std::vector<transport_descriptor> entries, const tcp_options& options,
                                                     callbacks events);

}  // namespace troupe::net
