#include "runtime/node/net/transports.hpp"

#include <map>
#include <mutex>

#include "runtime/node/net/local_transport.hpp"

namespace troupe::net {
namespace {

class transport_set final : public transport {
 public:
  transport_set(std::vector<transport_descriptor> entries, callbacks events)
      : rows_(std::move(entries)), events_(std::move(events)) {}
  ~transport_set() override { close(); }

  expected<void> make(const tcp_options& options) {
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      auto made = rows_[i].make(options, callbacks_of(i));
      if (!made) return made.error();
      all_.push_back(std::move(*made));
    }
    return {};
  }

  expected<std::uint16_t> listen(const address& where) override {
    auto at = where;
    for (auto t = all_.rbegin(); t != all_.rend(); ++t) {
      auto port = (*t)->listen(at);
      if (!port) return port;
      at.port = *port;
    }
    return at.port;
  }
  void connect(const std::string& peer, const address& where, std::chrono::milliseconds within) override {
    if (by(peer)) return;
    std::size_t i = 0;
    while (i + 1 < rows_.size() && !rows_[i].reaches(peer, where)) ++i;
    all_[i]->connect(peer, where, within);
  }
  bool send(std::string_view peer, outgoing_frame&& f) override {
    auto* t = by(peer);
    return t != nullptr && t->send(peer, std::move(f));
  }
  void disconnect(const std::string& peer) override {
    if (auto* t = by(peer)) t->disconnect(peer);
  }
  void limit(const std::string& peer, std::uint64_t bytes) override {
    if (auto* t = by(peer)) t->limit(peer, bytes);
  }
  expected<void> reload_certificates() override {
    for (const auto& t : all_)
      if (auto done = t->reload_certificates(); !done) return done;
    return {};
  }
  transport_stats stats() const override {
    transport_stats sum;
    for (const auto& t : all_) {
      auto s = t->stats();
      std::move(s.peers.begin(), s.peers.end(), std::back_inserter(sum.peers));
      sum.refused += s.refused;
      sum.pending += s.pending;
      sum.pooled_bytes += s.pooled_bytes;
    }
    return sum;
  }
  std::uint64_t release_unused() override {
    std::uint64_t bytes = 0;
    for (const auto& t : all_) bytes += t->release_unused();
    return bytes;
  }
  void close() override {
    for (const auto& t : all_) t->close();
  }

 private:
  transport* by(std::string_view peer) const {
    const std::lock_guard guard(lock_);
    const auto at = up_.find(peer);
    return at == up_.end() ? nullptr : all_[at->second].get();
  }

  // Each transport has a thread; turn_ makes their callbacks run one at a time.
  callbacks callbacks_of(std::size_t entry) {
    callbacks on;
    on.log = events_.log;
    on.on_proved = events_.on_proved;
    on.on_frame = [this](const std::string& peer, frame&& f) -> expected<void> {
      const std::lock_guard one(turn_);
      if (!events_.on_frame) return {};
      return events_.on_frame(peer, std::move(f));
    };
    on.on_peer_up = [this, entry](const std::string& peer, std::uint64_t incarnation) {
      const std::lock_guard one(turn_);
      {
        const std::lock_guard guard(lock_);
        up_[peer] = entry;
      }
      if (events_.on_peer_up) events_.on_peer_up(peer, incarnation);
    };
    on.on_peer_down = [this, entry](const std::string& peer, const error& why) {
      const std::lock_guard one(turn_);
      {
        const std::lock_guard guard(lock_);
        if (const auto at = up_.find(peer); at != up_.end() && at->second == entry) up_.erase(at);
      }
      if (events_.on_peer_down) events_.on_peer_down(peer, why);
    };
    return on;
  }

  const std::vector<transport_descriptor> rows_;
  const callbacks events_;
  std::mutex turn_;  // serializes callbacks
  mutable std::mutex lock_;
  std::map<std::string, std::size_t, std::less<>> up_;  // by peer: index of the transport on which it is up
  std::vector<std::unique_ptr<transport>> all_;         // last member: destroyed first, and no callback follows
};

}  // namespace

transport_descriptor tcp_descriptor() {
  return {"tcp", "TCP with mutual TLS 1.3, to any node",
          [](const tcp_options& o, callbacks on) { return make_tcp_transport(o, std::move(on)); },
          [](const std::string&, const address&) { return true; }};
}

transport_descriptor local_descriptor(std::shared_ptr<local_hub> hub) {
  return {"local", "one copy, to nodes of this process",
          [hub](const tcp_options& o, callbacks on) { return make_local_transport(o, hub, std::move(on)); },
          [hub](const std::string&, const address& where) { return reaches(*hub, where); }};
}

std::vector<transport_descriptor> stock_transports() { return {tcp_descriptor()}; }

expected<std::unique_ptr<transport>> make_transports(std::vector<transport_descriptor> entries, const tcp_options& options,
                                                     callbacks events) {
  if (entries.empty()) return error{"bad_option", "[net] no transport is configured for this node"};
  if (entries.size() == 1) return entries[0].make(options, std::move(events));
  auto all = std::make_unique<transport_set>(std::move(entries), std::move(events));
  if (auto made = all->make(options); !made) return made.error();
  return std::unique_ptr<transport>(std::move(all));
}

}  // namespace troupe::net
