#include "tests/recovery/wires.hpp"

namespace troupe::recovery {
namespace {

constexpr auto dial_again = std::chrono::milliseconds(100);

}  // namespace

wires::end* wires::end_at(plane p, const std::string& at, const std::string& peer) {
  const auto found = ends_.find({p, at, peer});
  return found == ends_.end() || !found->second.up ? nullptr : &found->second;
}

bool wires::up(plane p, const std::string& at, const std::string& peer) const {
  const auto found = ends_.find({p, at, peer});
  return found != ends_.end() && found->second.up;
}

void wires::open(const std::string& node, std::uint64_t incarnation, ears& who) {
  nodes_[node] = {incarnation, &who};
  for (const auto p : {plane::control, plane::data})
    for (const auto& [name, other] : nodes_)
      if (name != node) find_half_open(p, node, name);
}

void wires::close(const std::string& node, bool silently) {
  nodes_.erase(node);
  stopped_.erase(node);
  for (auto& [w, e] : ends_) {
    const auto& [p, at, peer] = w;
    if (at == node) e.up = false;
    if (peer != node || !e.up) continue;
    const bool receives = !silently && !cut_now(p, node, at);
    const auto later =
        receives ? latency(p).drawn(random_) : times_.silence - duration(static_cast<std::int64_t>(random_.below(1'000'000'000)));
    drop_later(p, at, peer, later, receives ? "peer_closed: the connection was closed" : "peer_silent: no data received");
  }
}

// --- connections

void wires::dial(plane p, const std::string& from, const std::string& to, duration within) {
  const auto at = nodes_.find(from);
  if (at == nodes_.end()) return;
  auto& until = dials_[{p, from, to}];
  const bool under_way = until > agenda_.now();
  until = std::max(until, agenda_.now() + within);
  if (!under_way) try_dial(p, from, to, until, at->second.incarnation);
}

void wires::try_dial(plane p, const std::string& from, const std::string& to, time_point, std::uint64_t incarnation) {
  const auto me = nodes_.find(from);
  if (me == nodes_.end() || me->second.incarnation != incarnation) {
    dials_.erase({p, from, to});
    return;
  }
  const auto until = dials_[{p, from, to}];
  if (end_at(p, from, to)) return void(dials_.erase({p, from, to}));
  const auto peer = nodes_.find(to);
  if (peer != nodes_.end() && passes(p, from, to)) {
    dials_.erase({p, from, to});
    const auto session = ++sessions_;
    const auto theirs = peer->second.incarnation;
    agenda_.in(latency(p).drawn(random_), [=, this] { establish(p, from, to, session, theirs, incarnation); });
    agenda_.in(latency(p).drawn(random_), [=, this] { establish(p, to, from, session, incarnation, theirs); });
    return;
  }
  if (agenda_.now() >= until) {
    dials_.erase({p, from, to});
    return me->second.who->on_down(p, to, "connect_deadline: no answer");
  }
  agenda_.in(dial_again, [=, this] { try_dial(p, from, to, until, incarnation); });
}

void wires::establish(plane p, const std::string& at, const std::string& peer, std::uint64_t session, std::uint64_t of_peer,
                      std::uint64_t mine) {
  const auto me = nodes_.find(at);
  auto& e = ends_[{p, at, peer}];
  if (me == nodes_.end() || me->second.incarnation != mine || e.session >= session) {
    find_half_open(p, at, peer);
    return;
  }
  if (e.up) {
    drop(p, at, peer, e.session, "replaced: the peer has a newer connection");
    if (!nodes_.count(at) || ends_[{p, at, peer}].session >= session) return;
  }
  ends_[{p, at, peer}] = {true, session};
  nodes_[at].who->on_up(p, peer, of_peer);
  find_half_open(p, at, peer);
}

void wires::drop(plane p, const std::string& at, const std::string& peer, std::uint64_t session, const std::string& why) {
  auto* e = end_at(p, at, peer);
  if (!e || e->session != session) return;
  e->up = false;
  const auto* other = end_at(p, peer, at);
  if (other && other->session == session)
    drop_later(p, peer, at, cut_now(p, at, peer) ? times_.silence : latency(p).drawn(random_),
               "peer_closed: the connection was closed");
  if (const auto me = nodes_.find(at); me != nodes_.end()) me->second.who->on_down(p, peer, why);
}

void wires::drop_later(plane p, const std::string& at, const std::string& peer, duration later, const std::string& why) {
  const auto session = ends_[{p, at, peer}].session;
  agenda_.in(later, [=, this] { drop(p, at, peer, session, why); });
}

// One side has a connection that the other side does not have. It is notified some time after its
// next keep-alive.
void wires::find_half_open(plane p, const std::string& a, const std::string& b) {
  if (!passes(p, a, b)) return;
  const auto check = [&](const std::string& at, const std::string& peer) {
    const auto* e = end_at(p, at, peer);
    if (!e) return;
    const auto session = e->session;
    agenda_.in(range{2 * latency(p).most + duration{1'000'000}, 2 * latency(p).most + times_.notices}.drawn(random_), [=, this] {
      const auto* mine = end_at(p, at, peer);
      const auto* theirs = end_at(p, peer, at);
      if (!mine || mine->session != session || (theirs && theirs->session == session) || !passes(p, at, peer)) return;
      if (ends_[{p, peer, at}].session > session || !nodes_.count(peer))
        return;  // a newer connection is being established, or the peer is gone
      drop(p, at, peer, session, "peer_reset: the peer does not have this connection");
    });
  };
  check(a, b);
  check(b, a);
}

// --- messages

bool wires::send(plane p, const std::string& from, const std::string& to, cargo c) {
  const auto* e = end_at(p, from, to);
  if (!e) return ++lost_, false;
  if (cut_now(p, from, to))
    held_[{p, from, to}].push_back({e->session, std::move(c)});
  else
    carry(p, from, to, e->session, std::move(c));
  return true;
}

void wires::carry(plane p, const std::string& from, const std::string& to, std::uint64_t session, cargo c) {
  const auto* e = std::get_if<envelope>(&c);
  auto& last = last_[{p, from, to, e ? index_of(e->h.src) : 0, e ? index_of(e->h.dst) : 0}];
  last = std::max(last, agenda_.now() + latency(p).drawn(random_));
  const auto box = std::make_shared<cargo>(std::move(c));
  const auto arrive = [=, this] {
    const auto* there = end_at(p, to, from);
    if (!there || there->session != session) return void(++lost_);
    nodes_[to].who->on_cargo(p, from, std::move(*box));
  };
  // A side that is connected before the other may send at once; the message arrives after the other
  // side is up.
  const auto& other = ends_[{p, to, from}];
  if (other.session < session) last = std::max(last, agenda_.now() + latency(p).most + duration(1));
  agenda_.at(last, arrive);
}

void wires::cut(plane p, const std::string& from, const std::string& to) {
  const auto number = ++cut_count_;
  if (!cuts_.emplace(way{p, from, to}, number).second) return;
  const auto* e = end_at(p, to, from);
  if (!e) return;
  agenda_.in(times_.silence, [=, this, session = e->session] {
    const auto at = cuts_.find({p, from, to});
    if (at != cuts_.end() && at->second == number) drop(p, to, from, session, "peer_silent: no data received for 5 s");
  });
}

void wires::stop(const std::string& node) {
  const auto number = ++cut_count_;
  if (!stopped_.emplace(node, number).second) return;
  for (const auto& [w, e] : ends_) {
    const auto& [p, at, peer] = w;
    if (peer != node || !e.up) continue;
    agenda_.in(times_.silence, [=, this, p = p, at = at, session = e.session] {
      const auto now = stopped_.find(node);
      if (now != stopped_.end() && now->second == number) drop(p, at, node, session, "peer_silent: no data received for 5 s");
    });
  }
}

void wires::go_on(const std::string& node) { stopped_.erase(node); }

void wires::mend(plane p, const std::string& from, const std::string& to) {
  if (cuts_.erase({p, from, to}) == 0) return;
  for (auto& w : std::exchange(held_[{p, from, to}], {})) {
    const auto* e = end_at(p, from, to);
    if (e && e->session == w.session) carry(p, from, to, w.session, std::move(w.what));
  }
  find_half_open(p, from, to);
}

}  // namespace troupe::recovery
