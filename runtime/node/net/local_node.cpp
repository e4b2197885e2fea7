#include "runtime/node/net/local_node.hpp"

#include <algorithm>
#include <cstring>

#include "runtime/node/net/frame.hpp"
#include "runtime/node/net/hello.hpp"
#include "runtime/node/net/payload.hpp"

namespace troupe::net {

local_node::local_node(tcp_options o, std::shared_ptr<local_hub> hub, callbacks events)
    : options_(std::move(o)),
      hub_(std::move(hub)),
      events_(std::move(events)),
      pool_(buffer_pool::make(options_.pool_keep, options_.memory)) {}

// --- thread

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
    log(std::string("[net] exception in a callback: ") + e.what());
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
    give_up(std::string(late->first), {"connect_deadline", "[net] no node listens on " + to_string(late->second.where)});
  }
}

// --- dials

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
  if (name == options_.node) return error{"self_connection", "[net] the peer has this node's name, " + name};
  if (!wanted.empty() && wanted != name) return error{"wrong_node", "[net] dialled " + wanted + ", reached " + name};
  const auto older = [](const local_node& who, const local_node& of) {
    const auto known = who.peers_.find(of.options_.node);
    return known != who.peers_.end() && of.options_.incarnation < known->second.incarnation;
  };
  if (older(to, *this) || older(*this, to))
    return error{"stale_incarnation", "[net] a later incarnation of that node has been seen"};
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
  const error replaced{"replaced", "[net] the peer has reconnected"}, gone{"peer_closed", "[net] the peer has reconnected"};
  if (const auto before = up(to.options_.node)) {
    const auto theirs = to.up(options_.node);
    if (theirs && theirs == before->end.lock()) return;  // both ends have joined already
    part(before, replaced, gone);
  }
  if (const auto before = to.up(options_.node)) to.part(before, replaced, gone);
  const auto make = [](const local_node& mine, local_node& other) {
    auto l = std::make_shared<link>();
    l->accounts = make_accounts(mine.options_.window);
    l->name = other.options_.node;
    l->incarnation = other.options_.incarnation;
    l->waiting.open(other.options_.window);
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
  for (std::size_t i = 0; i < frame_classes; ++i)
    l->accounts[i]->on_report([sender = std::weak_ptr(other), end = l->end, i, account = std::weak_ptr(l->accounts[i])] {
      const auto to = sender.lock();
      if (to)
        to->post([to = to.get(), end, i, account] {
          const auto mine = end.lock();
          const auto held = account.lock();
          if (mine && held) to->returned(mine, static_cast<frame_class>(i), held->collect());
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
  for (const auto& a : l->accounts) a->on_report({});
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

void local_node::limit(const std::string& peer, std::uint64_t bytes) {
  const std::lock_guard guard(hub_->links);
  if (const auto l = up(peer)) l->most = bytes;
}

// --- frames

bool local_node::send(std::string_view peer, outgoing_frame&& f) {
  const std::lock_guard guard(hub_->links);
  const auto l = up(peer);
  if (!l || leaving_) return false;
  const auto bytes = prepare(f, l->max_frame);
  if (!bytes) return log(bytes.error().message), false;
  if (l->queued + *bytes + (l->queued_frames + 1) * frame_overhead > l->most.value_or(options_.max_queued)) {
    part(l, {"queue_full", "[net] " + l->name + " reads too slowly: its send queue is full"},
         {"peer_closed", "[net] the peer has closed the connection"});
    return false;
  }
  l->waiting.push(std::move(f), *bytes);
  l->queued += *bytes;
  ++l->queued_frames;
  call(l);
  return true;
}

// Notifies the other end that frames wait for it, unless it has been notified.
void local_node::call(const link_ptr& l) {
  const auto other = l->other.lock();
  if (!other || l->called || !l->waiting.can_send()) return;
  l->called = true;
  other->post([to = other.get(), end = l->end] {
    if (const auto mine = end.lock()) to->take_one(mine);
  });
}

// Returns the next frame to send; empty if no frame may be sent now.
std::optional<send_order::entry> local_node::hand_over(const link_ptr& l) {
  l->called = false;
  auto* const e = l->waiting.next();
  if (e == nullptr) return std::nullopt;
  const auto bytes = e->left;
  l->queued -= bytes;
  --l->queued_frames;
  auto& r = peers_[l->name];
  ++r.frames_out;
  r.bytes_out += bytes + header_bytes;
  {
    const std::lock_guard guard(lock_);
    ++handed_over_;
  }
  changed_.notify_all();
  return l->waiting.sent(bytes);
}

// Runs on the receiver's thread; `l` is the receiver's end.
void local_node::take_one(const link_ptr& l) {
  const auto other = l->other.lock();
  const auto end = l->end.lock();
  std::optional<send_order::entry> next;
  {
    const std::lock_guard guard(hub_->links);
    if (!other || !end || other->up(end->name) != end) return;
    next = other->hand_over(end);
  }
  if (!next) return;
  receive(l, next->f);
  next.reset();  // outside the lock: destructors of owners may run any code
  const std::lock_guard guard(hub_->links);
  if (other->up(end->name) == end) other->call(end);
}

void local_node::receive(const link_ptr& l, outgoing_frame& f) {
  error why;
  try {
    std::uint64_t bytes = 0;
    for (const auto& p : f.parts) bytes += p.bytes;
    const auto& account = l->accounts[static_cast<std::size_t>(class_of(bytes))];
    frame in{f.type, f.flags, f.destination, f.id, bytes, nullptr};
    const auto whole = std::find_if(f.parts.begin(), f.parts.end(), [&](const auto& p) { return p.bytes == bytes; });
    const bool shared = bytes > 0 && whole != f.parts.end() && whole->region &&
                        reinterpret_cast<std::uintptr_t>(whole->data) % buffer_pool::alignment == 0;
    in.payload = shared ? share_part(*whole, account) : pool_->take(bytes, account);
    if (!in.payload) throw std::bad_alloc();
    for (std::size_t at = 0; const auto& p : f.parts) {
      if (p.bytes > 0 && !shared) std::memcpy(in.payload.get() + at, p.data, p.bytes);
      at += p.bytes;
    }
    f.parts.clear();
    {
      const std::lock_guard guard(hub_->links);
      if (leaving_) return;
      auto& r = peers_[l->name];
      ++r.frames_in;
      r.bytes_in += bytes + header_bytes;
      if (shared) r.shared_in += bytes;
    }
    if (!events_.on_frame) return;
    auto fine = events_.on_frame(l->name, std::move(in));
    if (fine) return;
    why = fine.error();
  } catch (const std::exception& e) {
    why = {"exception", std::string("[net] ") + e.what()};
  }
  const std::lock_guard guard(hub_->links);
  if (up(l->name) == l) part(l, why, {"peer_closed", "[net] the peer has closed the connection"});
}

void local_node::returned(const link_ptr& l, frame_class c, std::uint64_t cost) {
  const std::lock_guard guard(hub_->links);
  if (up(l->name) != l) return;
  l->waiting.credit(c, cost);
  call(l);
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
    s.shared_in = r.shared_in;
    if (const auto& l = r.up) {
      s.queued_bytes = l->queued, s.queued_frames = l->queued_frames;
      s.unreturned = l->waiting.outstanding(), s.held = held(l->accounts);
    }
    out.peers.push_back(std::move(s));
  }
  out.refused = refused_;
  out.pooled_bytes = pool_->kept_bytes();
  return out;
}

// --- shutdown

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
    const auto before = handed_over_;
    guard.unlock();
    const bool done = all_out();
    guard.lock();
    if (done || stopped_) break;
    changed_.wait_until(guard, until, [&] { return stopped_ || handed_over_ != before; });
  }
  {
    const std::lock_guard guard(hub_->links);
    for (auto& [name, r] : peers_)
      if (const auto l = r.up) part(l, {"closed", "[net] this node is closing"}, {"peer_closed", "[net] the peer has closed"});
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

}  // namespace troupe::net
