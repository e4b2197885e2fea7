// Connects the roles on this node with roles on other nodes: converts envelopes to frames of the
// data plane and back. runtime/node/role_frames.hpp has the layout.
//
// Invariants:
//   * An envelope is delivered only if its job is open here and its source role is on the node that
//     sent it. Messages of an old job, or of a node that forges a source, never reach a role.
//   * Dropped messages are counted.
//   * A frame that cannot be decoded ends the connection with its sender, because a job that waits
//     for the lost message would wait indefinitely.
//   * The transport's credit is returned when a frame has been delivered to its role. The roles'
//     own credit bounds what they hold, and a backward must not wait for bytes that only this
//     backward frees.
// Threads: any. send() is called on actor threads, receive() on the transport's threads.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "actors/shell/node_host.hpp"
#include "runtime/base/result.hpp"
#include "runtime/cluster/job_host.hpp"
#include "runtime/messages/wire.hpp"
#include "runtime/node/net/transport.hpp"

namespace troupe {

struct router_counts {
  std::uint64_t sent = 0, received = 0;  // messages
  std::uint64_t unsent = 0;              // the peer was not up, or the message was too large
  std::uint64_t unreadable = 0;          // could not be decoded; each ended a connection
  std::uint64_t unknown_job = 0;         // the job is not open on this node, or no longer open
  std::uint64_t wrong_source = 0;        // the source role is not on the node that sent the frame
};

class router final : public job_routes {
 public:
  // `most`: maximum size of one message, in bytes.
  explicit router(std::size_t most = wire_max_message) : max_(most) {}
  // `nodes`: names of the plan's nodes, by index; `node_of`: index of a role's node, by role.
  void open(std::uint32_t job, std::vector<std::string> nodes, std::vector<std::uint32_t> node_of) override;
  void close(std::uint32_t job) override;
  // Sets transport and host, before the first job opens. Both must outlive all calls of send() and
  // receive().
  void attach(net::transport* t, node_host* h);

  // Sends a message to a node of the plan. An error if the message can never be sent: the job
  // must end then. Success if the peer is down, since the control plane handles node
  // failures.
  expected<void> send(std::uint32_t node, envelope e);
  // Delivers a frame to its role. An error if the frame cannot be decoded.
  expected<void, coded_error> receive(const std::string& peer, net::frame&& f);
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
