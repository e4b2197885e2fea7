#include "runtime/node/net/tcp_transport.hpp"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <list>
#include <map>
#include <optional>
#include <set>
#include <thread>

#include "runtime/node/net/connection.hpp"
#include "runtime/node/net/dialer.hpp"
#include "runtime/node/net/listener.hpp"
#include "runtime/node/net/payload.hpp"
#include "runtime/node/pki/certificates.hpp"

namespace troupe::net {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

namespace {

using link = std::shared_ptr<connection>;

// What trying again cannot mend: the dial ends at once with this reason.
bool hopeless(const std::string& code) {
  static const std::set<std::string, std::less<>> codes = {"certificate_refused", "certificate_rejected", "wrong_cluster",
                                                           "wrong_node",          "name_mismatch",        "protocol_version",
                                                           "stale_incarnation",   "self_connection"};
  return codes.contains(code);
}

class tcp_transport final : public transport, private connection_owner {
 public:
  tcp_transport(tcp_options options, callbacks events, std::shared_ptr<tls_context> tls)
      : options_(std::move(options)),
        events_(std::move(events)),
        setting_{io_, options_, std::move(tls), buffer_pool::make(options_.pool_keep, options_.memory), *this},
        listener_(io_) {}
  ~tcp_transport() override { close(); }

  void run();
  expected<std::uint16_t> listen(const address& where) override;
  void connect(const std::string& peer, const address& where, std::chrono::milliseconds within) override;
  bool send(std::string_view peer, outgoing_frame&& f) override;
  void disconnect(const std::string& peer) override;
  transport_stats stats() const override;
  void close() override;

 private:
  struct peer_record {
    link up;
    std::uint64_t incarnation = 0;  // the highest seen
    std::shared_ptr<peer_counters> counters = std::make_shared<peer_counters>();
  };
  struct dial {
    std::shared_ptr<dialer> reach;
    link attempt;  // the connection being greeted
  };

  void on_hello(const link& c, const hello& h) override;
  void on_welcome(const link& c) override;
  void on_frame(const link& c, frame&& f) override;
  void on_closed(const link& c, const error& reason) override;

  void loop() noexcept;
  void accepted(tcp::socket&& socket);
  void start_dial(const std::string& peer, const address& where, std::chrono::milliseconds within);
  void end_dial(const std::string& peer);
  std::optional<error> objection(const link& c, const hello& h) const;
  std::optional<std::string> dial_of(const link& attempt) const;
  link current(std::string_view peer) const;
  void promote(const link& c);
  void shut_down();
  void log(const std::string& line) const;

  const tcp_options options_;
  const callbacks events_;
  asio::io_context io_{1};
  asio::executor_work_guard<asio::io_context::executor_type> work_ = asio::make_work_guard(io_);
  const connection_setting setting_;

  // I/O thread only.
  listener listener_;
  std::set<link> all_;
  std::list<link> pending_;  // inbound, not yet authenticated, oldest first
  std::map<std::string, dial, std::less<>> dials_;
  bool closing_ = false;

  mutable std::mutex mutex_;  // guards what follows
  std::map<std::string, peer_record, std::less<>> peers_;
  bool listening_ = false, closed_ = false;
  std::uint64_t refused_ = 0, pending_count_ = 0;

  std::mutex join_mutex_;
  std::thread thread_;
};

void tcp_transport::log(const std::string& line) const {
  if (events_.log) events_.log(line);
}

void tcp_transport::run() {
  // Signals are for the threads that expect them.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { loop(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_setname_np(thread_.native_handle(), "troupe-net");
}

void tcp_transport::loop() noexcept {
  while (true) {
    try {
      io_.run();
      return;
    } catch (const std::exception& e) {
      try {
        log(std::string("[net] an exception reached the I/O loop: ") + e.what());
      } catch (...) {  // a log that throws is not worth dying for
      }
    } catch (...) {
    }
  }
}

expected<std::uint16_t> tcp_transport::listen(const address& where) {
  try {
    {
      const std::lock_guard lock(mutex_);
      if (closed_) return error{"closed", "[net] the transport is closed"};
      if (std::exchange(listening_, true)) return error{"already_listening", "[net] the transport listens already"};
    }
    auto bound = listener::bind(io_, where);
    if (!bound) {
      const std::lock_guard lock(mutex_);
      listening_ = false;
      return bound.error();
    }
    const std::uint16_t port = bound->local_endpoint().port();
    asio::post(io_, [this, a = std::make_shared<tcp::acceptor>(std::move(*bound))] {
      listener_.start(
          std::move(*a), [this](tcp::socket&& s) { accepted(std::move(s)); }, [this](const std::string& line) { log(line); });
    });
    return port;
  } catch (const std::exception& e) {
    return error{"exception", std::string("[net] ") + e.what()};
  }
}

void tcp_transport::accepted(tcp::socket&& socket) {
  if (pending_.size() >= options_.max_pending) {
    // The oldest goes: an honest greeting takes milliseconds, so silent strangers cannot keep a peer out.
    const link oldest = pending_.front();
    oldest->close({"too_many_pending", "[net] more than " + std::to_string(options_.max_pending) + " unauthenticated connections"});
  }
  error_code ignored;
  socket.set_option(tcp::no_delay(true), ignored);
  const auto c = std::make_shared<connection>(setting_, std::move(socket), false, "");
  all_.insert(c);
  pending_.push_back(c);
  {
    const std::lock_guard lock(mutex_);
    pending_count_ = pending_.size();
  }
  c->start();
}

void tcp_transport::connect(const std::string& peer, const address& where, std::chrono::milliseconds within) {
  asio::post(io_, [this, peer, where, within] {
    if (!closing_ && !current(peer)) start_dial(peer, where, within);
  });
}

void tcp_transport::start_dial(const std::string& peer, const address& where, std::chrono::milliseconds within) {
  end_dial(peer);
  dialer::events on;
  on.connected = [this, peer](tcp::socket&& socket) {
    error_code ignored;
    socket.set_option(tcp::no_delay(true), ignored);
    const auto c = std::make_shared<connection>(setting_, std::move(socket), true, peer);
    all_.insert(c);
    dials_[peer].attempt = c;
    c->start();
  };
  on.gave_up = [this, peer](const error& why) {
    end_dial(peer);
    if (events_.on_peer_down) events_.on_peer_down(peer, why);
  };
  auto reach = std::make_shared<dialer>(io_, where, within, options_.handshake, std::move(on));
  dials_[peer].reach = reach;
  reach->start();
}

void tcp_transport::end_dial(const std::string& peer) {
  const auto at = dials_.find(peer);
  if (at == dials_.end()) return;
  const dial d = std::move(at->second);
  dials_.erase(at);
  d.reach->stop();
  if (d.attempt && d.attempt != current(peer)) d.attempt->close({"superseded", "[net] another connection was chosen"});
}

// The name under which `attempt` was dialled, if that dial still goes on.
std::optional<std::string> tcp_transport::dial_of(const link& attempt) const {
  for (const auto& [name, d] : dials_)
    if (d.attempt == attempt) return name;
  return std::nullopt;
}

link tcp_transport::current(std::string_view peer) const {
  const std::lock_guard lock(mutex_);
  const auto at = peers_.find(peer);
  return at == peers_.end() ? nullptr : at->second.up;
}

// Why the peer that this hello names is refused; none: it is welcome.
std::optional<error> tcp_transport::objection(const link& c, const hello& h) const {
  if (h.cluster != options_.cluster) return error{"wrong_cluster", "[net] " + h.node + " belongs to another cluster"};
  if (h.node == options_.node) return error{"self_connection", "[net] the peer has this node's own name, " + h.node};
  if (is_operator(h.node) && !options_.operators) return error{"wrong_node", "[net] operators do not speak on the data plane"};
  if (!c->dialed() && !h.wanted.empty() && h.wanted != options_.node)
    return error{"wrong_node", "[net] " + h.node + " dialled " + h.wanted + ", this is " + options_.node};
  if (c->dialed() && !c->wanted().empty() && c->wanted() != h.node)
    return error{"wrong_node", "[net] dialled " + c->wanted() + ", reached " + h.node};
  if (c->dialed() && !dial_of(c)) return error{"superseded", "[net] this dial is over"};
  const std::lock_guard lock(mutex_);
  const auto known = peers_.find(h.node);
  if (known != peers_.end() && h.incarnation < known->second.incarnation)
    return error{"stale_incarnation", "[net] a later " + h.node + " has been seen"};
  return std::nullopt;
}

void tcp_transport::on_hello(const link& c, const hello& h) {
  if (closing_) return c->close({"closed", "[net] this node closes"});
  if (const auto why = objection(c, h)) {
    log("[net] refused " + c->remote() + ": " + why->message);
    return c->refuse(*why);
  }
  if (!judges(options_.node, h.node)) return;  // the other one does
  const link before = current(h.node);
  if (before && before->peer().incarnation == h.incarnation)
    return c->refuse({"duplicate", "[net] there is a connection to " + options_.node + " already"});
  c->bless();
  promote(c);
}

void tcp_transport::on_welcome(const link& c) {
  if (judges(options_.node, c->peer().node)) return c->close({"unexpected_frame", "[net] a welcome from who is not the judge"});
  promote(c);
}

void tcp_transport::promote(const link& c) {
  const std::string name = c->peer().node;
  if (const link before = current(name)) before->close({"replaced", "[net] " + name + " has connected anew"});
  pending_.remove(c);
  std::shared_ptr<peer_counters> counters;
  {
    const std::lock_guard lock(mutex_);
    pending_count_ = pending_.size();
    auto& p = peers_[name];
    p.up = c;
    p.incarnation = c->peer().incarnation;
    counters = p.counters;
  }
  c->go_up(std::move(counters));
  end_dial(name);
  if (const auto nameless = dial_of(c)) {  // dialled without a name: it is reached, whoever it is
    dials_[*nameless].attempt = nullptr;
    end_dial(*nameless);
  }
  if (events_.on_peer_up) events_.on_peer_up(name, c->peer().incarnation);
}

void tcp_transport::on_frame(const link& c, frame&& f) {
  if (!closing_ && events_.on_frame) events_.on_frame(c->peer().node, std::move(f));
}

void tcp_transport::on_closed(const link& c, const error& reason) {
  const link keep = c;
  all_.erase(c);
  pending_.remove(keep);
  bool was_up = false;
  const std::string name = keep->peer().node;
  {
    const std::lock_guard lock(mutex_);
    pending_count_ = pending_.size();
    const auto at = peers_.find(name);
    was_up = at != peers_.end() && at->second.up == keep;
    if (was_up) at->second.up = nullptr;
    if (was_up && is_operator(name)) peers_.erase(at);  // sessions do not come back: nothing of them may pile up
    if (!was_up && !keep->dialed()) ++refused_;
  }
  if (closing_) {
    if (all_.empty()) io_.stop();
    return;
  }
  if (was_up) {
    if (events_.on_peer_down) events_.on_peer_down(name, reason);
    return;
  }
  log("[net] " + keep->remote() + " not accepted: " + reason.code + ": " + reason.message);
  const auto peer = dial_of(keep);
  if (!peer) return;
  dial& d = dials_[*peer];
  d.attempt = nullptr;
  if (!hopeless(reason.code)) return d.reach->again(reason);
  end_dial(*peer);
  if (events_.on_peer_down) events_.on_peer_down(*peer, reason);
}

bool tcp_transport::send(std::string_view peer, outgoing_frame&& f) {
  try {
    const link up = current(peer);
    if (!up) return false;
    const auto bytes = prepare(f, up->peer().max_frame);
    if (!bytes) return log(bytes.error().message), false;
    return up->send(std::move(f), *bytes);
  } catch (const std::exception&) {
    return false;
  }
}

void tcp_transport::disconnect(const std::string& peer) {
  asio::post(io_, [this, peer] {
    if (closing_) return;
    if (const link up = current(peer)) up->close({"disconnected", "[net] disconnected by this node"});
  });
}

transport_stats tcp_transport::stats() const {
  transport_stats out;
  const std::lock_guard lock(mutex_);
  for (const auto& [name, p] : peers_) {
    peer_stats s;
    s.peer = name;
    s.transport = "tcp";
    s.incarnation = p.incarnation;
    s.bytes_in = p.counters->bytes_in;
    s.bytes_out = p.counters->bytes_out;
    s.frames_in = p.counters->frames_in;
    s.frames_out = p.counters->frames_out;
    s.up = p.up != nullptr;
    if (p.up) {
      s.queued_bytes = p.up->queued();
      s.queued_frames = p.up->queued_frames();
      s.unreturned = p.up->outstanding();
      s.held = p.up->held();
    }
    out.peers.push_back(std::move(s));
  }
  out.refused = refused_;
  out.pending = pending_count_;
  out.pooled_bytes = setting_.pool->kept_bytes();
  return out;
}

void tcp_transport::shut_down() {
  closing_ = true;
  listener_.stop();
  while (!dials_.empty()) end_dial(std::string(dials_.begin()->first));
  for (const link& c : std::set<link>(all_)) c->say_goodbye();
  if (all_.empty()) io_.stop();
}

void tcp_transport::close() {
  bool first = false;
  {
    const std::lock_guard lock(mutex_);
    first = !std::exchange(closed_, true);
  }
  if (first) asio::post(io_, [this] { shut_down(); });
  // Called from a callback, close() is on the I/O thread and cannot wait for it: the destructor joins.
  if (std::this_thread::get_id() == thread_.get_id()) return;
  const std::lock_guard lock(join_mutex_);
  if (thread_.joinable()) thread_.join();
}

}  // namespace

expected<std::unique_ptr<transport>> make_tcp_transport(tcp_options options, callbacks events) {
  using namespace std::chrono_literals;
  if (!valid_node_name(options.node) || options.node == client_name)
    return error{"bad_option", "[net] '" + options.node + "' cannot be a node's name"};
  if (options.window == 0 || options.heartbeat <= 0ms || options.silence < options.heartbeat || options.handshake <= 0ms ||
      options.max_pending == 0 || options.cluster.size() > 255)
    return error{"bad_option", "[net] a limit or interval of the transport makes no sense"};
  const auto proved = is_operator(options.node) ? std::string(client_name) : options.node;
  if (auto fine = check_certificate(options.ca, options.certificate, options.key, proved); !fine) return fine.error();
  auto tls = tls_context::load(options.ca, options.certificate, options.key);
  if (!tls) return tls.error();
  try {
    auto made = std::make_unique<tcp_transport>(std::move(options), std::move(events), std::move(*tls));
    made->run();
    return std::unique_ptr<transport>(std::move(made));
  } catch (const std::exception& e) {
    return error{"exception", std::string("[net] ") + e.what()};
  }
}

}  // namespace troupe::net
