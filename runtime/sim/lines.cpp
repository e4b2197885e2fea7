#include "runtime/sim/lines.hpp"

#include <algorithm>
#include <utility>

namespace troupe::sim {
namespace {

constexpr auto closed = "peer_closed: the connection was closed";
constexpr auto newer = "replaced: the peer has a newer connection";
constexpr auto alone = "peer_reset: the peer does not have this connection";
constexpr auto no_answer = "connect_deadline: no answer";

duration drawn(random& r, duration least, duration most) {
  const auto spread = most > least ? static_cast<std::uint64_t>((most - least).count()) : 0;
  return least + duration(static_cast<std::int64_t>(r.below(spread + 1)));
}

}  // namespace

lines::end& lines::end_of(plane p, std::uint32_t at, std::uint32_t peer) {
  return ends_[static_cast<std::size_t>(p)][pair_of(at, peer)][at < peer ? 0 : 1];
}

const lines::end* lines::find(plane p, std::uint32_t at, std::uint32_t peer) const {
  const auto* both = ends_[static_cast<std::size_t>(p)].find(pair_of(at, peer));
  return both ? &(*both)[at < peer ? 0 : 1] : nullptr;
}

lines::node_state& lines::node_of(std::uint32_t node) {
  if (node >= nodes_.size()) nodes_.resize(node + std::size_t{1});
  return nodes_[node];
}

std::uint64_t lines::session(plane p, std::uint32_t at, std::uint32_t peer) const {
  const auto* e = find(p, at, peer);
  return e && e->up ? e->session : 0;
}

bool lines::cut_now(plane p, std::uint32_t from, std::uint32_t to) const {
  const auto* e = find(p, from, to);
  return e && e->cut != 0;
}

bool lines::passes(plane p, std::uint32_t a, std::uint32_t b) const {
  const auto stopped = [&](std::uint32_t node) { return node < nodes_.size() && nodes_[node].stopped != 0; };
  return !stopped(a) && !stopped(b) && !cut_now(p, a, b) && !cut_now(p, b, a);
}

std::string lines::silent_for() const {
  return "peer_silent: no data received for " +
         std::to_string(std::chrono::duration_cast<std::chrono::seconds>(times_.silence).count()) + " s";
}

// --- daemons

void lines::open(std::uint32_t node, std::uint64_t incarnation, line_user& who) {
  auto& n = node_of(node);
  n.who = &who;
  n.incarnation = incarnation;
  for (const auto p : {plane::control, plane::data})
    for (std::uint32_t other = 0; other < nodes_.size(); ++other)
      if (other != node && open_now(other)) find_half_open(p, node, other);
}

void lines::close(std::uint32_t node, bool silently) {
  auto& n = node_of(node);
  n.who = nullptr;
  n.stopped = 0;
  for (const auto p : {plane::control, plane::data})
    for (std::uint32_t peer = 0; peer < nodes_.size(); ++peer) {
      if (peer == node || !find(p, node, peer)) continue;
      auto& mine = end_of(p, node, peer);
      mine.up = false;
      mine.dial_until = {};
      if (!up(p, peer, node)) continue;
      if (!silently && !cut_now(p, node, peer)) {
        drop_later(p, peer, node, latency_(p, node, peer), closed);
        continue;
      }
      const auto last_heard = drawn(random_, {}, std::min<duration>(times_.silence, std::chrono::seconds(1)));
      drop_later(p, peer, node, times_.silence - last_heard, "peer_silent: no data received");
    }
}

// --- connections

void lines::dial(plane p, std::uint32_t from, std::uint32_t to, duration within) {
  if (!open_now(from)) return;
  node_of(to);  // close() looks at all peers
  auto& until = end_of(p, from, to).dial_until;
  const bool under_way = until > agenda_.now();
  until = std::max(until, agenda_.now() + within);
  if (!under_way) try_dial(p, from, to, nodes_[from].incarnation);
}

void lines::try_dial(plane p, std::uint32_t from, std::uint32_t to, std::uint64_t incarnation) {
  if (!runs(from, incarnation)) return;
  auto& mine = end_of(p, from, to);
  const auto until = std::exchange(mine.dial_until, {});
  if (mine.up) return;
  if (open_now(to) && passes(p, from, to)) {
    const auto number = ++sessions_;
    const auto theirs = nodes_[to].incarnation;
    agenda_.in(latency_(p, to, from), [=, this] { establish(p, from, to, number, theirs, incarnation); });
    agenda_.in(latency_(p, from, to), [=, this] { establish(p, to, from, number, incarnation, theirs); });
    return;
  }
  if (agenda_.now() >= until) return nodes_[from].who->on_down(p, to, no_answer);
  mine.dial_until = until;
  agenda_.in(times_.dial_again, [=, this] { try_dial(p, from, to, incarnation); });
}

void lines::establish(plane p, std::uint32_t at, std::uint32_t peer, std::uint64_t number, std::uint64_t of_peer,
                      std::uint64_t mine) {
  if (!runs(at, mine) || end_of(p, at, peer).session >= number) return find_half_open(p, at, peer);
  if (up(p, at, peer)) {
    drop(p, at, peer, session(p, at, peer), newer);
    if (!runs(at, mine) || end_of(p, at, peer).session >= number) return;
  }
  auto& e = end_of(p, at, peer);
  e.up = true;
  e.session = number;
  nodes_[at].who->on_up(p, peer, of_peer);
  find_half_open(p, at, peer);
}

void lines::drop(plane p, std::uint32_t at, std::uint32_t peer, std::uint64_t number, const std::string& why) {
  if (number == 0 || session(p, at, peer) != number) return;
  end_of(p, at, peer).up = false;
  if (session(p, peer, at) == number)
    drop_later(p, peer, at, cut_now(p, at, peer) ? times_.silence : latency_(p, at, peer), closed);
  if (open_now(at)) nodes_[at].who->on_down(p, peer, why);
}

void lines::drop_later(plane p, std::uint32_t at, std::uint32_t peer, duration later, const char* why) {
  agenda_.in(later, [=, this, number = session(p, at, peer)] { drop(p, at, peer, number, why); });
}

// One side has a connection that the other side does not have. It is notified some time after its
// next keep-alive.
void lines::find_half_open(plane p, std::uint32_t a, std::uint32_t b) {
  const auto ours = session(p, a, b);
  const auto theirs = session(p, b, a);
  // What makes two equal ends differ later (drop, close, establish, open) looks after it.
  if (ours == theirs || !passes(p, a, b)) return;
  if (ours != 0) check_later(p, a, b);
  if (theirs != 0) check_later(p, b, a);
}

void lines::check_later(plane p, std::uint32_t at, std::uint32_t peer) {
  const auto least = 2 * most_latency_ + duration{1'000'000};
  agenda_.in(drawn(random_, least, 2 * most_latency_ + times_.notices), [=, this, number = session(p, at, peer)] {
    if (session(p, at, peer) != number || session(p, peer, at) == number || !passes(p, at, peer)) return;
    if (end_of(p, peer, at).session > number || !open_now(peer))
      return;  // a newer connection is being established, or the peer is gone
    drop(p, at, peer, number, alone);
  });
}

// --- messages of the control plane

bool lines::send(std::uint32_t from, std::uint32_t to, std::function<void()> arrive) {
  const auto number = session(plane::control, from, to);
  if (number == 0) {
    ++lost_;
    return false;
  }
  if (cut_now(plane::control, from, to))
    held_[way_of(from, to)].push_back({number, std::move(arrive)});
  else
    carry(from, to, number, std::move(arrive));
  return true;
}

void lines::carry(std::uint32_t from, std::uint32_t to, std::uint64_t number, std::function<void()> arrive) {
  auto& last = last_[way_of(from, to)];
  last = std::max(last, agenda_.now() + latency_(plane::control, from, to));
  // A side that is connected before the other may send at once; the message arrives after the other
  // side is up.
  if (end_of(plane::control, to, from).session < number) last = std::max(last, agenda_.now() + most_latency_ + duration(1));
  agenda_.at(last, [=, this, arrive = std::move(arrive)] {
    if (session(plane::control, to, from) == number)
      arrive();
    else
      ++lost_;
  });
}

// --- cuts and stops

void lines::cut(plane p, std::uint32_t from, std::uint32_t to) {
  auto& way = end_of(p, from, to);
  if (way.cut != 0) return;
  way.cut = ++cuts_;
  const auto number = session(p, to, from);
  if (number == 0) return;
  agenda_.in(times_.silence, [=, this, as = cuts_] {
    if (end_of(p, from, to).cut == as) drop(p, to, from, number, silent_for());
  });
}

void lines::mend(plane p, std::uint32_t from, std::uint32_t to) {
  if (!cut_now(p, from, to)) return;
  end_of(p, from, to).cut = 0;
  if (const auto at = held_.find(way_of(from, to)); p == plane::control && at != held_.end()) {
    const auto list = std::move(at->second);
    held_.erase(at);
    for (const auto& w : list) {
      if (session(p, from, to) == w.session)
        carry(from, to, w.session, w.arrive);
      else
        ++lost_;
    }
  }
  find_half_open(p, from, to);
}

void lines::stop(std::uint32_t node) {
  auto& n = node_of(node);
  if (n.stopped != 0) return;
  n.stopped = ++cuts_;
  for (const auto p : {plane::control, plane::data})
    for (std::uint32_t at = 0; at < nodes_.size(); ++at) {
      if (at == node || !up(p, at, node)) continue;
      agenda_.in(times_.silence, [=, this, as = n.stopped, number = session(p, at, node)] {
        if (nodes_[node].stopped == as) drop(p, at, node, number, silent_for());
      });
    }
}

void lines::go_on(std::uint32_t node) { node_of(node).stopped = 0; }

}  // namespace troupe::sim
