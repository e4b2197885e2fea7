#include "runtime/node/net/local_node.hpp"

#include <algorithm>
#include <cstring>

#include "runtime/node/net/frame.hpp"
#include "runtime/node/net/hello.hpp"

namespace troupe::net {

local_node::local_node(tcp_options o, std::shared_ptr<local_hub> hub, callbacks events)
    : options_(std::move(o)), hub_(std::move(hub)), events_(std::move(events)), pool_(buffer_pool::make(options_.pool_keep)) {}

void local_node::log(const std::string& line) const {
  if (events_.log) events_.log(line);
}

// --- the thread

void local_node::start() {
  hub_->joined(shared_from_this());
  thread_ = std::thread([self = shared_from_this()] { self->loop(); });
}

void local_node::post(std::function<void()> what) {
  {
    const std::lock_guard guard(lock_);
    if (stopped_) return;
    posted_.push_back(std::move(what));
  }
  changed_.notify_all();
}

void local_node::loop() {
  while (run_next()) end_late_dials();
}

bool local_node::run_next() {
  const auto until = next_deadline();
  std::function<void()> what;
  {
    std::unique_lock guard(lock_);
    const auto due = [this] { return stopped_ || !posted_.empty(); };
    if (until == clock::time_point::max())
      changed_.wait(guard, due);
    else
      changed_.wait_until(guard, until, due);
    if (stopped_) return false;
    if (posted_.empty()) return true;
    what = std::move(posted_.front());
    posted_.pop_front();
  }
  try {
    what();
  } catch (const std::exception& e) {
    log(std::string("[net] an exception of a callback: ") + e.what());
  }
  return true;
}

local_node::clock::time_point local_node::next_deadline() {
  const std::lock_guard guard(hub_->links);
  auto soonest = clock::time_point::max();
  for (const auto& [peer, d] : dials_) soonest = std::min(soonest, d.until);
  return soonest;
}

void local_node::end_late_dials() {
  const std::lock_guard guard(hub_->links);
  const auto now = clock::now();
  for (auto at = dials_.begin(); at != dials_.end();) {
    const auto late = at++;
    if (late->second.until > now) continue;
    give_up(std::string(late->first), {"connect_deadline", "[net] nobody listens on " + to_string(late->second.where)});
  }
}

// --- finding each other

expected<std::uint16_t> local_node::listen(const address& where) {
  expected<std::uint16_t> port = std::uint16_t{0};
  {
    const std::lock_guard guard(hub_->links);
    if (leaving_) return error{"closed", "[net] the transport is closed"};
    if (listening_) return error{"already_listening", "[net] the transport listens already"};
    if (where.host == "0.0.0.0" || where.host == "::")
      return error{"wildcard_address", "[net] " + where.host + " means every interface: name the address to listen on"};
    port = hub_->listen(where, shared_from_this());
    listening_ = port.has_value();
  }
  if (port) hub_->tell_dialers();
  return port;
}

void local_node::dial_again() {
  post([this] {
    const std::lock_guard guard(hub_->links);
    std::vector<std::string> peers;
    for (const auto& [peer, d] : dials_) peers.push_back(peer);
    for (const auto& p : peers) try_dial(p);
  });
}

void local_node::connect(const std::string& peer, const address& where, std::chrono::milliseconds within) {
  post([this, peer, where, within] {
    const std::lock_guard guard(hub_->links);
    if (leaving_ || up(peer)) return;
    dials_[peer] = {where, clock::now() + within};
    try_dial(peer);
  });
}

std::optional<error> local_node::objection(const local_node& to, const std::string& wanted) const {
  const auto& name = to.options_.node;
  if (to.options_.cluster != options_.cluster) return error{"wrong_cluster", "[net] " + name + " belongs to another cluster"};
  if (name == options_.node) return error{"self_connection", "[net] the peer has this node's own name, " + name};
  if (!wanted.empty() && wanted != name) return error{"wrong_node", "[net] dialled " + wanted + ", reached " + name};
  const auto older = [](const local_node& who, const local_node& of) {
    const auto known = who.peers_.find(of.options_.node);
    return known != who.peers_.end() && of.options_.incarnation < known->second.incarnation;
  };
  if (older(to, *this) || older(*this, to)) return error{"stale_incarnation", "[net] a later one of that name has been seen"};
  return std::nullopt;
}

void local_node::try_dial(const std::string& peer) {
  const auto at = dials_.find(peer);
  if (at == dials_.end()) return;
  const auto to = hub_->find(at->second.where);
  if (!to || to->leaving_) return;
  if (const auto why = objection(*to, peer)) {
    ++to->refused_;
    return give_up(peer, *why);
  }
  dials_.erase(at);
  join(*to);
}

void local_node::give_up(const std::string& peer, const error& why) {
  dials_.erase(peer);
  post([this, peer, why] {
    if (events_.on_peer_down) events_.on_peer_down(peer, why);
  });
}

// --- links

local_node::link_ptr local_node::up(std::string_view peer) const {
  const auto at = peers_.find(peer);
  return at == peers_.end() ? nullptr : at->second.up;
}

void local_node::join(local_node& to) {
  const error replaced{"replaced", "[net] the peer has connected anew"}, gone{"peer_closed", "[net] the peer has connected anew"};
  if (const auto before = up(to.options_.node)) {
    const auto theirs = to.up(options_.node);
    if (theirs && theirs == before->end.lock()) return;  // they have found each other already
    part(before, replaced, gone);
  }
  if (const auto before = to.up(options_.node)) to.part(before, replaced, gone);
  const auto make = [](const local_node& mine, local_node& other) {
    auto l = std::make_shared<link>();
    l->account = std::make_shared<credit_account>(std::max<std::uint64_t>(mine.options_.window / 8, 1));
    l->name = other.options_.node;
    l->incarnation = other.options_.incarnation;
    l->window = other.options_.window;
    l->max_frame = other.options_.max_frame;
    l->other = other.weak_from_this();
    return l;
  };
  const auto here = make(*this, to), there = make(to, *this);
  here->end = there;
  there->end = here;
  put_up(to.shared_from_this(), here);
  to.put_up(shared_from_this(), there);
}

void local_node::put_up(const std::shared_ptr<local_node>& other, const link_ptr& l) {
  auto& r = peers_[l->name];
  r.up = l;
  r.incarnation = l->incarnation;
  dials_.erase(l->name);
  l->account->on_report([sender = std::weak_ptr(other), end = l->end, account = std::weak_ptr(l->account)] {
    const auto to = sender.lock();
    if (to)
      to->post([to = to.get(), end, account] {
        const auto mine = end.lock();
        const auto held = account.lock();
        if (mine && held) to->returned(mine, held->collect());
      });
  });
  post([this, name = l->name, incarnation = l->incarnation] {
    if (events_.on_peer_up) events_.on_peer_up(name, incarnation);
  });
}

void local_node::part(const link_ptr& l, const error& here, const error& there) {
  const auto other = l->other.lock();
  const auto end = l->end.lock();
  drop(l, here);
  if (other && end) other->drop(end, there);
}

void local_node::drop(const link_ptr& l, const error& why) {
  const auto at = peers_.find(l->name);
  if (at == peers_.end() || at->second.up != l) return;
  at->second.up = nullptr;
  l->account->on_report({});
  if (leaving_) return;
  post([this, name = l->name, why] {
    if (events_.on_peer_down) events_.on_peer_down(name, why);
  });
}

void local_node::disconnect(const std::string& peer) {
  post([this, peer] {
    const std::lock_guard guard(hub_->links);
    if (const auto l = up(peer))
      part(l, {"disconnected", "[net] disconnected by this node"}, {"peer_closed", "[net] the peer has disconnected"});
  });
}

// --- frames

bool local_node::send(std::string_view peer, outgoing_frame&& f) {
  const std::lock_guard guard(hub_->links);
  const auto l = up(peer);
  if (!l || leaving_) return false;
  std::uint64_t bytes = 0;
  for (const auto& p : f.parts) bytes += p.bytes;
  if (f.type >= first_reserved_type || bytes > l->max_frame) {
    log("[net] a frame of type " + std::to_string(f.type) + " and " + std::to_string(bytes) + " bytes cannot be sent");
    return false;
  }
  if (l->queued + bytes > options_.max_queued) {
    part(l, {"queue_full", "[net] " + l->name + " takes too little of what waits for it"},
         {"peer_closed", "[net] the peer has closed the connection"});
    return false;
  }
  l->waiting.emplace_back(std::move(f), bytes);
  l->queued += bytes;
  pump(l);
  return true;
}

void local_node::pump(const link_ptr& l) {
  const auto other = l->other.lock();
  const auto end = l->end.lock();
  if (!other || !end) return;
  while (!l->waiting.empty() && l->outstanding < l->window) {
    auto f = std::make_shared<outgoing_frame>(std::move(l->waiting.front().first));
    const auto bytes = l->waiting.front().second;
    l->waiting.pop_front();
    l->queued -= bytes;
    l->outstanding += frame_cost(bytes);
    auto& r = peers_[l->name];
    ++r.frames_out;
    r.bytes_out += bytes + header_bytes;
    other->post([to = other.get(), end, f, bytes] { to->receive(end, *f, bytes); });
  }
  changed_.notify_all();  // close() may wait for this
}

void local_node::receive(const link_ptr& l, outgoing_frame& f, std::uint64_t bytes) {
  error why;
  try {
    frame in{f.type, f.flags, f.destination, f.id, bytes, pool_->take(bytes, l->account)};
    if (!in.payload) throw std::bad_alloc();
    std::size_t at = 0;
    for (const auto& p : f.parts) {
      if (p.bytes > 0) std::memcpy(in.payload.get() + at, p.data, p.bytes);
      at += p.bytes;
    }
    f.parts.clear();
    {
      const std::lock_guard guard(hub_->links);
      if (leaving_) return;
      auto& r = peers_[l->name];
      ++r.frames_in;
      r.bytes_in += bytes + header_bytes;
    }
    if (events_.on_frame) events_.on_frame(l->name, std::move(in));
    return;
  } catch (const std::exception& e) {
    why = {"exception", std::string("[net] ") + e.what()};
  }
  const std::lock_guard guard(hub_->links);
  if (up(l->name) == l) part(l, why, {"peer_closed", "[net] the peer has closed the connection"});
}

void local_node::returned(const link_ptr& l, std::uint64_t cost) {
  const std::lock_guard guard(hub_->links);
  if (up(l->name) != l) return;
  l->outstanding -= std::min(cost, l->outstanding);
  pump(l);
}

transport_stats local_node::stats() const {
  transport_stats out;
  const std::lock_guard guard(hub_->links);
  for (const auto& [name, r] : peers_) {
    peer_stats s;
    s.peer = name;
    s.transport = "local";
    s.incarnation = r.incarnation;
    s.up = r.up != nullptr;
    s.bytes_in = r.bytes_in, s.bytes_out = r.bytes_out, s.frames_in = r.frames_in, s.frames_out = r.frames_out;
    if (r.up) s.queued_bytes = r.up->queued, s.unreturned = r.up->outstanding, s.held = r.up->account->held();
    out.peers.push_back(std::move(s));
  }
  out.refused = refused_;
  out.pooled_bytes = pool_->kept_bytes();
  return out;
}

// --- the end

bool local_node::all_out() const {
  const std::lock_guard guard(hub_->links);
  return std::all_of(peers_.begin(), peers_.end(), [](const auto& p) { return !p.second.up || p.second.up->waiting.empty(); });
}

void local_node::close() {
  {
    const std::lock_guard guard(hub_->links);
    leaving_ = true;
    dials_.clear();
  }
  hub_->left(*this);
  const auto until = clock::now() + options_.linger;
  for (std::unique_lock guard(lock_); clock::now() < until;) {
    guard.unlock();
    const bool done = all_out();
    guard.lock();
    if (done || stopped_) break;
    changed_.wait_until(guard, until);
  }
  {
    const std::lock_guard guard(hub_->links);
    for (auto& [name, r] : peers_)
      if (const auto l = r.up) part(l, {"closed", "[net] this node closes"}, {"peer_closed", "[net] the peer has closed"});
  }
  {
    const std::lock_guard guard(lock_);
    stopped_ = true;
    posted_.clear();
  }
  changed_.notify_all();
  if (std::this_thread::get_id() == thread_.get_id()) return;
  const std::lock_guard guard(join_lock_);
  if (thread_.joinable()) thread_.join();
}

// --- as a transport

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
  transport_stats stats() const override { return node_->stats(); }
  void close() override { node_->close(); }

 private:
  std::shared_ptr<local_node> node_;
};

}  // namespace

expected<std::unique_ptr<transport>> make_local_transport(tcp_options options, std::shared_ptr<local_hub> hub, callbacks events) {
  if (!valid_node_name(options.node) || options.window == 0)
    return error{"bad_option", "[net] a node's name or the window of the transport makes no sense"};
  auto node = std::make_shared<local_node>(std::move(options), std::move(hub), std::move(events));
  node->start();
  return std::unique_ptr<transport>(std::make_unique<local_transport>(std::move(node)));
}

}  // namespace troupe::net
