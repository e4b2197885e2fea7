// A client of a daemon that can send messages that Troupe's programs do not send.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "actors/control/frames.hpp"
#include "runtime/base/result.hpp"
#include "runtime/cluster/messages.hpp"
#include "runtime/node/net/operator_options.hpp"
#include "runtime/node/net/tcp_transport.hpp"
#include "tests/cluster/processes.hpp"

namespace troupe::testing_cluster {

// An operator's session that sends any message. It keeps received frames without returning credit,
// so a daemon can have at most `window` bytes in flight to it.
class rude_operator {
 public:
  rude_operator(const std::string& tls, std::uint16_t port, std::uint64_t window = 1 << 20) {
    auto o = net::operator_options(tls);
    if (!o) throw std::runtime_error(o.error().message);
    o->window = window;
    o->max_queued = std::uint64_t{1} << 30;
    net::callbacks c;
    c.on_peer_up = [this](const std::string& peer, std::uint64_t) { change([&] { daemon_ = peer; }); };
    c.on_peer_down = [this](const std::string&, const coded_error& why) { change([&] { down_ = why.code; }); };
    c.on_frame = [this](const std::string&, net::frame&& f) -> expected<void, coded_error> {
      change([&] { frames_.push_back(std::move(f)); });
      return {};
    };
    auto made = net::make_tcp_transport(std::move(*o), std::move(c));
    if (!made) throw std::runtime_error(made.error().message);
    net_ = std::move(*made);
    net_->connect("", {"127.0.0.1", port}, 10s);
    if (!wait([&] { return !daemon_.empty(); })) throw std::runtime_error("the daemon does not answer");
  }
  bool send(const control::message& m) { return net_->send(daemon_, control::to_frame(m)); }
  bool send_frame(net::outgoing_frame f) { return net_->send(daemon_, std::move(f)); }
  // Waits until a frame for which `is` returns true has arrived.
  template <class F>
  bool first_frame(F is) {
    return wait([&] { return std::any_of(frames_.begin(), frames_.end(), is); });
  }
  bool has_frames(std::size_t n) {
    return wait([&] { return frames_.size() >= n; });
  }
  bool let_go() {
    return wait([&] { return !down_.empty(); });
  }
  // Waits for the first message of type M.
  template <class M>
  std::optional<M> first() {
    std::optional<M> found;
    wait([&] {
      for (const auto& f : frames_)
        if (auto m = control::from_frame(f); m && std::holds_alternative<M>(*m) && !found) found = std::get<M>(*m);
      return found.has_value();
    });
    return found;
  }

 private:
  template <class F>
  void change(F f) {
    const std::lock_guard guard(lock_);
    f();
    changed_.notify_all();
  }
  template <class F>
  bool wait(F until) {
    std::unique_lock guard(lock_);
    return changed_.wait_for(guard, 20s, until);
  }
  std::mutex lock_;
  std::condition_variable changed_;
  std::string daemon_, down_;
  std::vector<net::frame> frames_;
  std::unique_ptr<net::transport> net_;  // last member: destroyed first
};

}  // namespace troupe::testing_cluster
