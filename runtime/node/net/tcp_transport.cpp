#include "runtime/node/net/tcp_transport.hpp"

#include <netinet/tcp.h>
#include <sys/socket.h>

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "runtime/access/names.hpp"
#include "runtime/base/result.hpp"
#include "runtime/node/net/connection.hpp"
#include "runtime/node/net/dialer.hpp"
#include "runtime/node/net/io_thread.hpp"
#include "runtime/node/net/listener.hpp"
#include "runtime/node/net/memory_sharing.hpp"
#include "runtime/node/net/peer_table.hpp"
#include "runtime/node/net/stranger_log.hpp"
#include "runtime/node/net/transport.hpp"
#include "runtime/node/pki/certificates.hpp"

namespace troupe::net {
namespace {

// A peer that is cut off may read its shared buffers until its process ends. While such a peer
// holds any, checks twice a second whether it has ended. I/O thread.
class shared_buffer_sweeper {
 public:
  // `what` is null if no memory is shared.
  shared_buffer_sweeper(boost::asio::io_context& io, std::shared_ptr<memory_sharing> what) : timer_(io), what_(std::move(what)) {}

  void look() {
    if (!what_ || waits_ || over_ || !what_->sweep()) return;
    waits_ = true;
    timer_.expires_after(std::chrono::milliseconds(500));
    timer_.async_wait([this](const boost::system::error_code& ec) {
      waits_ = false;
      if (!ec) look();
    });
  }
  void stop() {
    over_ = true;
    timer_.cancel();
  }

 private:
  boost::asio::steady_timer timer_;
  const std::shared_ptr<memory_sharing> what_;
  bool waits_ = false, over_ = false;
};

// Checks an outgoing frame once, before it is queued.

coded_error refused(const outgoing_frame& f, std::string code, const std::string& why) {
  return {std::move(code), "[net] a frame of type " + std::to_string(f.type) + " cannot be sent: " + why};
}

// Sets `p.data`. An error if the part cannot be read.
expected<void> place(const_part& p) {
  if (p.region) {
    if (!p.region->holds(p.offset, p.bytes))
      return unexpected(error(std::to_string(p.bytes) + " bytes from offset " + std::to_string(p.offset) + " exceed a region of " +
                              std::to_string(p.region->bytes)));
    if (!p.region->readable()) return unexpected(error("a part is in device memory, which the host cannot read"));
    p.data = p.region->base + p.offset;
  }
  if (p.bytes > 0 && p.data == nullptr) return unexpected(error("a part has no data"));
  return {};
}

// Returns the payload size of a frame that may be sent to a peer that accepts `max_frame` bytes,
// and sets `data` of every part, also of those in regions. Errors, for the log: "reserved_type",
// "frame_too_large", "bad_part" (no payload byte has been read).
expected<std::uint64_t, coded_error> prepare(outgoing_frame& f, std::uint64_t max_frame) {
  if (f.type >= first_reserved_type) return unexpected(refused(f, "reserved_type", "the type is reserved for the transport"));
  std::uint64_t bytes = 0;
  for (const_part& p : f.parts) {
    if (p.bytes > max_frame - bytes)
      return unexpected(
          refused(f, "frame_too_large", "it has more than the " + std::to_string(max_frame) + " bytes that the peer accepts"));
    bytes += p.bytes;
  }
  for (const_part& p : f.parts)
    if (const auto placed = place(p); !placed) return unexpected(refused(f, "bad_part", placed.error().text));
  return bytes;
}

}  // namespace

std::vector<std::byte> whole(const frame& f) {
  std::vector<std::byte> out;
  std::size_t from = 0;
  const auto add = [&out](const std::byte* at, std::size_t n) { out.insert(out.end(), at, at + n); };
  for (const auto& p : f.shared) {
    const auto before = p.at - out.size();
    add(f.payload.get() + from, before);
    add(p.data.get(), p.bytes);
    from += before + p.bytes - bytes_elsewhere(p);
  }
  add(f.payload.get() + from, f.bytes - from);
  return out;
}

coded_error unreadable(const std::string& peer, const frame& f, const std::string& why) {
  std::size_t all = f.bytes, shared = 0;
  for (const auto& p : f.shared) {
    all += bytes_elsewhere(p);
    shared += p.bytes;
  }
  return {unreadable_frame, "[net] " + peer + " sent a frame that cannot be decoded (type " + std::to_string(f.type) + ", " +
                                std::to_string(all) + " bytes, " + std::to_string(shared) + " of them shared): " + why};
}

using boost::asio::ip::tcp;
using boost::system::error_code;

namespace {

using link = peer_table::link;

// Errors that a retry cannot fix: the dial ends at once with this reason.
bool hopeless(const std::string& code) {
  static const std::set<std::string, std::less<>> codes = {
      "certificate_refused", "certificate_rejected", "wrong_cluster",   "wrong_node",        "name_mismatch",
      "protocol_version",    "stale_incarnation",    "self_connection", "incarnation_ahead", "certificate_revoked"};
  return codes.contains(code);
}

std::uint64_t latest_believed(const tcp_options& o) {
  const auto now = std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::system_clock::now().time_since_epoch());
  return static_cast<std::uint64_t>((now + o.incarnation_ahead).count());
}

// Small writes are sent at once, and lost packets are sent again at least every second. By default
// the kernel doubles the interval each time: after 3.5 s without a packet the next one would follow
// at 7 s. Older kernels apply the first socket option only to streams with little data in flight,
// and do not have the second: they keep their defaults.
void make_prompt(tcp::socket& s) {
  error_code ignored;
  s.set_option(tcp::no_delay(true), ignored);
  constexpr int rto_max_ms = 44;  // TCP_RTO_MAX_MS (6.15), newer than the headers
  const int yes = 1, second = 1000;
  (void)::setsockopt(s.native_handle(), IPPROTO_TCP, TCP_THIN_LINEAR_TIMEOUTS, &yes, sizeof yes);
  (void)::setsockopt(s.native_handle(), IPPROTO_TCP, rto_max_ms, &second, sizeof second);
}

// The common name that the certificate must have: a session's name has one more word.
std::string proved_by(const tcp_options& o) { return is_operator(o.node) ? o.node.substr(0, o.node.rfind('.')) : o.node; }

class tcp_transport final : public transport, private connection_owner {
 public:
  tcp_transport(tcp_options options, callbacks events, std::shared_ptr<tls_context> tls)
      : options_(std::move(options)),
        events_(std::move(events)),
        io_([this](const std::string& line) { log(line); }),
        setting_{io_.context(),
                 options_,
                 std::move(tls),
                 buffer_pool::make(options_.pool_keep, options_.memory),
                 options_.shares ? std::make_shared<net::memory_sharing>(options_.shares, options_.pool_keep) : nullptr,
                 *this},
        listener_(io_.context()),
        turns_(io_.context(), options_.dials_at_once, options_.handshake / 2),
        strangers_(io_.context(), [this](const std::string& line) { log(line); }),
        borrowers_(io_.context(), setting_.memory_sharing) {}
  ~tcp_transport() override { close(); }

  void run() { io_.run(); }
  expected<std::uint16_t, coded_error> listen(const address& where) override;
  void connect(const std::string& peer, const address& where, std::chrono::milliseconds within) override;
  bool send(std::string_view peer, outgoing_frame&& f) override;
  void disconnect(const std::string& peer) override;
  void limit(const std::string& peer, std::uint64_t bytes) override;
  expected<void, coded_error> reload_certificates() override;
  transport_stats stats() const override;
  std::uint64_t release_unused() override {
    return setting_.pool->release_unused() + (setting_.memory_sharing ? setting_.memory_sharing->release_unused() : 0);
  }
  void close() override;

 private:
  struct dial {
    std::shared_ptr<dialer> reach;
    link attempt;  // in handshake or greeting
  };

  void on_hello(const link& c, const hello& h) override;
  void on_welcome(const link& c) override;
  expected<void, coded_error> on_frame(const link& c, frame&& f) override;
  void on_closed(const link& c, const coded_error& reason) override;

  void accepted(tcp::socket&& socket);
  void start_dial(const std::string& peer, const address& where, std::chrono::milliseconds within);
  void end_dial(const std::string& peer);
  expected<void, coded_error> check(const link& c, const hello& h) const;
  std::optional<std::string> dial_of(const link& attempt) const;
  void promote(const link& c);
  void shut_down();
  void log(const std::string& line) const;

  const tcp_options options_;
  const callbacks events_;
  io_thread io_;
  connection_setting setting_;  // `tls` changes on the I/O thread

  // I/O thread only.
  listener listener_;
  std::set<link> all_;
  std::list<link> pending_;  // inbound, not yet authenticated, oldest first
  std::map<std::string, dial, std::less<>> dials_;
  dial_turns turns_;
  stranger_log strangers_;
  shared_buffer_sweeper borrowers_;
  bool closing_ = false;

  peer_table peers_;
  std::atomic<bool> listening_{false}, closed_{false};
};

void tcp_transport::log(const std::string& line) const {
  if (events_.log) events_.log(line);
}

expected<std::uint16_t, coded_error> tcp_transport::listen(const address& where) {
  try {
    if (closed_) return unexpected(coded_error{"closed", "[net] the transport is closed"});
    if (listening_.exchange(true)) return unexpected(coded_error{"already_listening", "[net] the transport listens already"});
    auto bound = listener::bind(io_.context(), where);
    if (!bound) {
      listening_ = false;
      return unexpected(bound.error());
    }
    const std::uint16_t port = bound->local_endpoint().port();
    io_.post([this, a = std::make_shared<tcp::acceptor>(std::move(*bound))] {
      listener_.start(
          std::move(*a), [this](tcp::socket&& s) { accepted(std::move(s)); }, [this](const std::string& line) { log(line); });
    });
    return port;
  } catch (const std::exception& e) {
    return unexpected(coded_error{"exception", std::string("[net] ") + e.what()});
  }
}

void tcp_transport::accepted(tcp::socket&& socket) {
  if (pending_.size() >= options_.max_pending) {
    // Closes the oldest one: a regular greeting takes milliseconds, so silent connections cannot
    // keep a peer out.
    const link oldest = pending_.front();
    oldest->close({"too_many_pending", "[net] more than " + std::to_string(options_.max_pending) + " unauthenticated connections"});
  }
  make_prompt(socket);
  const auto c = std::make_shared<connection>(setting_, std::move(socket), false, "");
  all_.insert(c);
  pending_.push_back(c);
  peers_.pending(pending_.size());
  c->start();
}

void tcp_transport::connect(const std::string& peer, const address& where, std::chrono::milliseconds within) {
  io_.post([this, peer, where, within] {
    if (closing_ || peers_.current(peer)) return;
    const auto at = dials_.find(peer);
    if (at != dials_.end() && at->second.reach->where() == where) return at->second.reach->extend(within);
    start_dial(peer, where, within);
  });
}

void tcp_transport::start_dial(const std::string& peer, const address& where, std::chrono::milliseconds within) {
  end_dial(peer);
  dialer::events on;
  on.connected = [this, peer](tcp::socket&& socket) {
    make_prompt(socket);
    const auto c = std::make_shared<connection>(setting_, std::move(socket), true, peer);
    all_.insert(c);
    dials_[peer].attempt = c;
    c->start();
  };
  on.gave_up = [this, peer](const coded_error& why) {
    end_dial(peer);
    if (events_.on_peer_down) events_.on_peer_down(peer, why);
  };
  auto reach = std::make_shared<dialer>(io_.context(), turns_, where, within, options_.handshake, std::move(on));
  dials_[peer].reach = reach;
  reach->start();
}

void tcp_transport::end_dial(const std::string& peer) {
  const auto at = dials_.find(peer);
  if (at == dials_.end()) return;
  const dial d = std::move(at->second);
  dials_.erase(at);
  d.reach->stop();
  if (d.attempt && d.attempt != peers_.current(peer)) d.attempt->close({"superseded", "[net] another connection was chosen"});
}

// The name under which `attempt` was dialled; empty if that dial is over.
std::optional<std::string> tcp_transport::dial_of(const link& attempt) const {
  for (const auto& [name, d] : dials_)
    if (d.attempt == attempt) return name;
  return std::nullopt;
}

// An error if the peer of this hello is not accepted.
expected<void, coded_error> tcp_transport::check(const link& c, const hello& h) const {
  const auto refused = [](const char* code, const std::string& why) { return unexpected(coded_error{code, "[net] " + why}); };
  if (h.cluster != options_.cluster) return refused("wrong_cluster", h.node + " belongs to another cluster");
  if (h.node == options_.node) return refused("self_connection", "the peer has this node's name, " + h.node);
  if (c->revoked_by(*setting_.tls)) return refused("certificate_revoked", "the certificate of " + h.node + " has been revoked");
  if (is_operator(h.node) && !options_.operators) return refused("wrong_node", "operators are not accepted on the data plane");
  const auto most = options_.max_operators - (c->role() == certificate_role::admin ? 0 : options_.max_operators / 16);
  if (!c->dialed() && is_operator(h.node) && peers_.sessions() >= most)
    return refused("too_many_clients", options_.node + " has " + std::to_string(most) + " client sessions, the maximum");
  if (!c->dialed() && !h.wanted.empty() && h.wanted != options_.node)
    return refused("wrong_node", h.node + " dialled " + h.wanted + ", this is " + options_.node);
  if (c->dialed() && !c->wanted().empty() && c->wanted() != h.node)
    return refused("wrong_node", "dialled " + c->wanted() + ", reached " + h.node);
  if (c->dialed() && !dial_of(c)) return refused("superseded", "this dial is over");
  if (const auto latest = latest_believed(options_); h.incarnation > latest)
    return refused("incarnation_ahead", h.node + " started more than a day ahead of this node's clock: set the clocks");
  if (peers_.knows_later(h)) return refused("stale_incarnation", "a later incarnation of " + h.node + " has been seen");
  return {};
}

void tcp_transport::on_hello(const link& c, const hello& h) {
  if (closing_) return c->close({"closed", "[net] this node is closing"});
  if (const auto fine = check(c, h); !fine) {
    strangers_.write(*c, "[net] refused " + c->remote() + ": " + fine.error().message);
    return c->refuse(fine.error());
  }
  if (!wins_tie_break(options_.node, h.node)) return;  // the peer decides
  const link before = peers_.current(h.node);
  if (before && before->peer().incarnation == h.incarnation)
    return c->refuse({"duplicate", "[net] there is a connection to " + options_.node + " already"});
  c->accept_peer();
  promote(c);
}

void tcp_transport::on_welcome(const link& c) {
  if (wins_tie_break(options_.node, c->peer().node))
    return c->close({"unexpected_frame", "[net] a welcome from the peer that does not decide"});
  promote(c);
}

void tcp_transport::promote(const link& c) {
  const std::string name = c->peer().node;
  if (const link before = peers_.current(name)) before->close({"replaced", "[net] " + name + " has reconnected"});
  pending_.remove(c);
  peers_.pending(pending_.size());
  if (is_operator(name)) c->limit(options_.max_queued_operator);
  c->go_up(peers_.put_up(c));
  end_dial(name);
  if (const auto nameless = dial_of(c)) {  // dialled without a name: this peer is the one reached
    dials_[*nameless].attempt = nullptr;
    end_dial(*nameless);
  }
  if (events_.on_proved) events_.on_proved(name, c->role());
  if (events_.on_peer_up) events_.on_peer_up(name, c->peer().incarnation);
}

expected<void, coded_error> tcp_transport::on_frame(const link& c, frame&& f) {
  if (closing_ || !events_.on_frame) return {};
  return events_.on_frame(c->peer().node, std::move(f));
}

void tcp_transport::on_closed(const link& c, const coded_error& reason) {
  all_.erase(c);
  pending_.remove(c);
  peers_.pending(pending_.size());
  const bool was_up = peers_.take_down(c);
  borrowers_.look();
  if (closing_) {
    if (all_.empty()) io_.stop();
    return;
  }
  if (was_up) {
    if (events_.on_peer_down) events_.on_peer_down(c->peer().node, reason);
    return;
  }
  strangers_.write(*c, "[net] " + c->remote() + " not accepted: " + reason.code + ": " + reason.message);
  const auto peer = dial_of(c);
  if (!peer) return;
  dial& d = dials_[*peer];
  d.attempt = nullptr;
  if (!hopeless(reason.code)) return d.reach->again(reason);
  end_dial(*peer);
  if (events_.on_peer_down) events_.on_peer_down(*peer, reason);
}

bool tcp_transport::send(std::string_view peer, outgoing_frame&& f) {
  try {
    const link up = peers_.current(peer);
    if (!up) return false;
    const auto bytes = prepare(f, up->peer().max_frame);
    if (!bytes) return log(bytes.error().message), false;
    return up->send(std::move(f), *bytes);
  } catch (const std::exception&) {
    return false;
  }
}

void tcp_transport::disconnect(const std::string& peer) {
  io_.post([this, peer] {
    if (closing_) return;
    if (const link up = peers_.current(peer)) up->close({"disconnected", "[net] disconnected by this node"});
  });
}

void tcp_transport::limit(const std::string& peer, std::uint64_t bytes) {
  if (const link up = peers_.current(peer)) up->limit(bytes);
}

expected<void, coded_error> tcp_transport::reload_certificates() {
  if (auto fine = check_certificate(options_.ca, options_.certificate, options_.key, proved_by(options_)); !fine) return fine;
  auto tls = tls_context::load(options_.ca, options_.certificate, options_.key);
  if (!tls) return unexpected(tls.error());
  io_.post([this, now = std::move(*tls)] {
    if (closing_) return;
    setting_.tls = now;
    for (const link& c : std::set<link>(all_))
      if (c->revoked_by(*now)) {
        log("[net] the certificate of " + (c->peer().node.empty() ? c->remote() : c->peer().node) +
            " has been revoked: disconnected");
        c->close({"certificate_revoked", "[net] the certificate of " + c->peer().node + " has been revoked"});
      }
  });
  return {};
}

transport_stats tcp_transport::stats() const {
  auto out = peers_.stats();
  out.pooled_bytes = setting_.pool->kept_bytes();
  return out;
}

void tcp_transport::shut_down() {
  closing_ = true;
  listener_.stop();
  turns_.stop();
  strangers_.stop();
  borrowers_.stop();
  while (!dials_.empty()) end_dial(std::string(dials_.begin()->first));
  for (const link& c : std::set<link>(all_)) c->say_goodbye();
  if (all_.empty()) io_.stop();
}

void tcp_transport::close() {
  if (!closed_.exchange(true)) io_.post([this] { shut_down(); });
  io_.join();
}

}  // namespace

expected<std::unique_ptr<transport>, coded_error> make_tcp_transport(tcp_options options, callbacks events) {
  using namespace std::chrono_literals;
  if (!valid_node_name(options.node) || options.node == client_name)
    return unexpected(coded_error{"bad_option", "[net] '" + options.node + "' is not a valid node name"});
  if (options.window == 0 || options.heartbeat <= 0ms || options.silence < options.heartbeat || options.handshake <= 0ms ||
      options.max_pending == 0 || options.dials_at_once == 0 || options.stalled < options.heartbeat || options.cluster.size() > 255)
    return unexpected(coded_error{"bad_option", "[net] a limit or interval of the transport is out of range"});
  if (auto fine = check_certificate(options.ca, options.certificate, options.key, proved_by(options)); !fine)
    return unexpected(fine.error());
  auto tls = tls_context::load(options.ca, options.certificate, options.key);
  if (!tls) return unexpected(tls.error());
  try {
    auto made = std::make_unique<tcp_transport>(std::move(options), std::move(events), std::move(*tls));
    made->run();
    return std::unique_ptr<transport>(std::move(made));
  } catch (const std::exception& e) {
    return unexpected(coded_error{"exception", std::string("[net] ") + e.what()});
  }
}

}  // namespace troupe::net
