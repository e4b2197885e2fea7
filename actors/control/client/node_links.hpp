// An operator's connections to all daemons of a cluster. Each daemon answers `look` by itself, so
// that one learns what the nodes know also while the coordinator's daemon does not answer.
// Threads: one at a time. Errors: a node that does not answer has a `trouble`.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/control/client/client_link.hpp"
#include "runtime/spec/job_spec.hpp"

namespace troupe {

class node_links {
 public:
  struct node {
    cluster_address where;                   // where.node: its name
    std::unique_ptr<client_link> link = {};  // null: not connected
    std::string trouble = {};                // why it is not connected, or did not answer in time; empty: it does
    std::chrono::steady_clock::time_point tried{};
  };

  // Connects to all nodes at the same time, each within this time.
  node_links(const cluster_spec& c, std::chrono::milliseconds within);
  std::vector<node>& nodes() { return nodes_; }
  const std::vector<node>& nodes() const { return nodes_; }
  std::size_t connected() const;
  // Why no node is connected: the troubles of all.
  std::string troubles() const;
  // Connects again to the nodes that were lost at least two seconds ago.
  void reconnect(std::chrono::milliseconds within);

  // What `each` makes for every connected node, and its answer, by node; nullopt: none within this
  // time.
  template <class Each>
  std::vector<std::optional<control::looked>> ask_all(Each each, std::chrono::milliseconds within) {
    std::vector<std::uint64_t> ids;
    for (auto& n : nodes_) ids.push_back(n.link ? send(n, each(n)) : 0);
    std::vector<std::optional<control::looked>> answers;
    const auto deadline = std::chrono::steady_clock::now() + within;
    for (std::size_t i = 0; i < nodes_.size(); ++i)
      answers.push_back(ids[i] != 0 ? receive(nodes_[i], ids[i], deadline) : std::nullopt);
    return answers;
  }
  std::optional<control::looked> ask(node& n, control::look what, std::chrono::milliseconds within);

 private:
  std::uint64_t send(node& n, control::look what);  // 0: lost
  static std::optional<control::looked> receive(node& n, std::uint64_t id, std::chrono::steady_clock::time_point deadline);

  std::vector<node> nodes_;
  std::uint64_t asked_ = 0;
};

}  // namespace troupe
