#include "runtime/node/net/local_transport.hpp"

#include "runtime/node/net/hello.hpp"
#include "runtime/node/net/local_node.hpp"

namespace troupe::net {
namespace {

class local_transport final : public transport {
 public:
  explicit local_transport(std::shared_ptr<local_node> n) : node_(std::move(n)) {}
  ~local_transport() override { node_->close(); }
  expected<std::uint16_t> listen(const address& where) override { return node_->listen(where); }
  void connect(const std::string& peer, const address& where, std::chrono::milliseconds within) override {
    node_->connect(peer, where, within);
  }
  bool send(std::string_view peer, outgoing_frame&& f) override { return node_->send(peer, std::move(f)); }
  void disconnect(const std::string& peer) override { node_->disconnect(peer); }
  void limit(const std::string& peer, std::uint64_t bytes) override { node_->limit(peer, bytes); }
  transport_stats stats() const override { return node_->stats(); }
  void close() override { node_->close(); }

 private:
  std::shared_ptr<local_node> node_;
};

}  // namespace

expected<std::unique_ptr<transport>> make_local_transport(tcp_options options, std::shared_ptr<local_hub> hub, callbacks events) {
  if (!valid_node_name(options.node) || options.window == 0)
    return error{"bad_option", "[net] the node's name is not valid, or the transport's window is 0"};
  auto node = std::make_shared<local_node>(std::move(options), std::move(hub), std::move(events));
  node->start();
  return std::unique_ptr<transport>(std::make_unique<local_transport>(std::move(node)));
}

}  // namespace troupe::net
