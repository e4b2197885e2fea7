#include "actors/control/client/client_link.hpp"

#include <condition_variable>
#include <deque>
#include <mutex>

#include "actors/control/frames.hpp"
#include "runtime/node/net/operator_options.hpp"

namespace troupe {
struct client_link::impl {
  mutable std::mutex lock;
  std::condition_variable changed;
  std::deque<control::message> inbox;
  std::string daemon, reason;
  bool up = false, down = false;
  std::unique_ptr<net::transport> net;  // last member: its callbacks use the others

  net::callbacks callbacks() {
    net::callbacks c;
    c.on_peer_up = [this](const std::string& peer, std::uint64_t) {
      std::lock_guard guard(lock);
      daemon = peer;
      up = true;
      changed.notify_all();
    };
    c.on_peer_down = [this](const std::string&, const coded_error& why) {
      std::lock_guard guard(lock);
      down = true;
      reason = why.message;
      changed.notify_all();
    };
    c.on_frame = [this](const std::string& peer, net::frame&& f) -> expected<void, coded_error> {
      auto m = control::from_frame(f);
      if (!m) return unexpected(net::unreadable(peer, f, "it is not a control message"));
      std::lock_guard guard(lock);
      inbox.push_back(std::move(*m));
      changed.notify_all();
      return {};
    };
    return c;
  }
  ~impl() {
    if (net) net->close();
  }
};

client_link::client_link(std::unique_ptr<impl> p) : impl_(std::move(p)) {}
client_link::~client_link() = default;

expected<std::unique_ptr<client_link>, coded_error> client_link::open(const cluster_address& where,
                                                                      std::chrono::milliseconds within) {
  const auto at = net::parse_address(where.address);
  if (!at) return unexpected(at.error());
  auto options = net::operator_options(where.tls_dir, where.cluster);
  if (!options) return unexpected(options.error());
  auto& o = *options;
  o.max_frame = control::max_message;
  auto p = std::make_unique<impl>();
  auto made = net::make_tcp_transport(std::move(o), p->callbacks());
  if (!made) return unexpected(made.error());
  p->net = std::move(*made);
  p->net->connect(where.node, *at, within);
  std::unique_lock guard(p->lock);
  // The transport gives up by itself at the deadline; the margin is for a transport that does not.
  p->changed.wait_for(guard, within + std::chrono::milliseconds(500), [&] { return p->up || p->down; });
  if (!p->up || p->down) {
    const auto who = where.node.empty() ? std::string("no daemon") : "the daemon of node " + where.node + " does not";
    const auto verb = where.node.empty() ? " answers at " : " answer at ";
    coded_error e{"unreachable", who + verb + where.address + (p->reason.empty() ? "" : ": " + p->reason)};
    guard.unlock();
    return unexpected(e);
  }
  guard.unlock();
  return std::unique_ptr<client_link>(new client_link(std::move(p)));
}

expected<void, coded_error> client_link::send(const control::message& m) {
  auto f = control::to_frame(m);
  if (const auto bytes = f.parts.front().bytes; bytes > control::max_message)
    return unexpected(coded_error{"too_large", "the message has " + std::to_string(bytes) + " bytes, and " + impl_->daemon +
                                                   " accepts at most " + std::to_string(control::max_message)});
  bool down = false;
  {
    std::lock_guard guard(impl_->lock);
    down = impl_->down;
  }
  if (down || !impl_->net->send(impl_->daemon, std::move(f))) return unexpected(coded_error{"lost", why_lost()});
  return {};
}

std::optional<control::message> client_link::receive(std::chrono::milliseconds within) {
  std::unique_lock guard(impl_->lock);
  impl_->changed.wait_for(guard, within, [this] { return !impl_->inbox.empty() || impl_->down; });
  if (impl_->inbox.empty()) return std::nullopt;
  auto m = std::move(impl_->inbox.front());
  impl_->inbox.pop_front();
  return m;
}

bool client_link::lost() const {
  std::lock_guard guard(impl_->lock);
  return impl_->down && impl_->inbox.empty();
}
std::string client_link::why_lost() const {
  std::lock_guard guard(impl_->lock);
  return "lost the connection to " + impl_->daemon + (impl_->reason.empty() ? "" : ": " + impl_->reason);
}
const std::string& client_link::daemon() const { return impl_->daemon; }

}  // namespace troupe
