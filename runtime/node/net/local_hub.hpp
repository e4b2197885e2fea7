// State shared by the local transports of one process: the listening addresses, and the lock under
// which two nodes are joined.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/node/net/local_transport.hpp"

namespace troupe::net {

class local_node;

class local_hub {
 public:
  // Errors: "address_in_use". Port 0 selects a free one.
  expected<std::uint16_t> listen(const address& where, const std::shared_ptr<local_node>& who);
  std::shared_ptr<local_node> find(const address& where) const;
  void joined(const std::shared_ptr<local_node>& who);
  void left(const local_node& who);
  void tell_dialers();  // called when a node has begun to listen

  // Held while two nodes are joined or parted, so that both agree on the current link.
  std::recursive_mutex links;

 private:
  mutable std::mutex lock_;
  std::map<std::string, std::weak_ptr<local_node>> listening_;
  std::vector<std::weak_ptr<local_node>> all_;
  std::uint16_t next_port_ = 40000;
};

}  // namespace troupe::net
