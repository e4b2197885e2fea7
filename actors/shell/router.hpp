// Between the roles here and the roles on other nodes: an envelope becomes a frame of the data
// plane, and a frame an envelope. runtime/node/role_frames.hpp has their layout.
//
// Invariants: an envelope is delivered only if its job is open here and its source role lives on
// the node that sent it, so neither leftovers of an old job nor a node that lies about its roles
// reach a role. Whatever is dropped is counted. A frame that cannot be decoded ends the connection
// with its sender: a message is lost, and a job that waits for it would wait for ever. Credit of
// the transport is returned when a frame has been handed to its role: the roles' own credit bounds
// what they keep, and a backward must not wait for bytes that only that backward frees.
// Threads: any. send() is called on actor threads, receive() on the transport's.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "actors/shell/job_host.hpp"
#include "actors/shell/node_host.hpp"
#include "runtime/messages/wire.hpp"
#include "runtime/node/net/transport.hpp"

namespace troupe {

struct router_counts {
  std::uint64_t sent = 0, received = 0;  // messages
  std::uint64_t unsent = 0;              // the peer was not up, or it was too large
  std::uint64_t unreadable = 0;          // cannot be decoded; each has ended a connection
  std::uint64_t unknown_job = 0;         // a job that is not open here (any more)
  std::uint64_t wrong_source = 0;        // a role that does not live where the frame came from
};

class router final : public job_routes {
 public:
  // Of one message, in bytes.
  explicit router(std::size_t most = wire_max_message) : max_(most) {}
  // `nodes`: of the plan, by index; `node_of`: by role.
  void open(std::uint32_t job, std::vector<std::string> nodes, std::vector<std::uint32_t> node_of) override;
  void close(std::uint32_t job) override;
  // Both must outlive what they carry: set before the first job, cleared when nobody sends any
  // more.
  void attach(net::transport* t, node_host* h);

  // Why it can never be sent, in the words of an event `error`: what a job has lost must end it. A
  // peer that is gone is no error here, others know of it; nothing then.
  std::string send(std::uint32_t node, envelope e);
  // An error: the frame cannot be decoded.
  net::expected<void> receive(const std::string& peer, net::frame&& f);
  router_counts counts() const;

 private:
  struct table {
    std::vector<std::string> nodes;
    std::vector<std::uint32_t> node_of;
  };
  std::shared_ptr<const table> find(std::uint32_t job) const;

  const std::size_t max_;
  std::atomic<net::transport*> transport_{nullptr};
  std::atomic<node_host*> host_{nullptr};
  mutable std::shared_mutex lock_;
  std::unordered_map<std::uint32_t, std::shared_ptr<const table>> jobs_;
  std::atomic<std::uint64_t> sent_{0}, received_{0}, unsent_{0}, unreadable_{0}, unknown_job_{0}, wrong_source_{0};
};

}  // namespace troupe
