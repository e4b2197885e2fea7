// The path of a message from its send to its delivery: within a node, over the fabric, and through
// a channel if the wire is unreliable.
#include <algorithm>
#include <stdexcept>
#include <utility>

#include "ops/device.hpp"
#include "runtime/messages/crossing.hpp"
#include "runtime/messages/header_fields.hpp"
#include "runtime/sim/world.hpp"

namespace troupe::sim {

void world::fail_on_stray_fields(role_id self, const envelope& e) const {
  const auto fields = stray_header_fields(e);
  if (fields.empty()) return;
  throw mistake("role " + std::to_string(index_of(self)) + " sends '" + name_of(e.body) +
                "' with header fields that this type does not use: " + fields);
}

duration world::drawn_latency() {
  const auto& n = config_.network;
  const auto spread = static_cast<std::uint64_t>((n.most - n.least).count());
  return n.least + duration(static_cast<std::int64_t>(random_.below(spread + 1)));
}

// Addresses the message of a plan's role. Returns the receiver; null: there is none.
world::hosted* world::address(std::uint32_t plan, const hosted& from, role_id self, envelope& e) {
  auto& p = plans_[plan];
  e.h.job = p.job;
  if (e.h.src == no_role) e.h.src = self;
  if (index_of(e.h.dst) >= p.roles.size()) return nullptr;
  auto& to = p.roles[index_of(e.h.dst)];
  if (to.node != from.node || to.value) return &to;
  ++report_.counts.lost_in_crash;
  return nullptr;
}

void world::send(std::uint32_t plan, role_id self, envelope&& e) {
  if (!config_.allow_mistakes) fail_on_stray_fields(self, e);
  auto& from = place(plan, self);
  auto* to = plan == 0 ? at_home(e.h.dst) : address(plan, from, self, e);
  e.h.incarnation = from.incarnation;
  if (!to) {
    // The destination is down or does not exist.
    if (plan == 0 && index_of(e.h.dst) < roles_.size() && roles_[index_of(e.h.dst)].there) ++report_.counts.lost_in_crash;
    return;
  }
  if (config_.dev) {
    // Messages to other nodes leave from host memory; their receiver may not be there yet.
    auto& there = from.node == to->node ? *to->dev : (to->dev ? to->dev : from.dev)->host();
    if (crosses(e, *from.dev, there)) cross(e, leaving_stream_of(from), there);
    freeze(e);
  }
  int n = copies ? copies(e, random_) : 1;
  // Messages within a node are passed in memory; only messages between nodes may be duplicated.
  if (faults_.any() && from.node != to->node && faults_.twice_above(from.node, to->node, now_, report_.counts)) ++n;
  e.h.trace = static_cast<std::uint32_t>(std::max(n - 1, 0));
  if (n <= 0) return;
  if (from.node != to->node) return send_remote(from, *to, plan, std::move(e));
  const auto& net = config_.network;
  const bool shuffled = net.fabric == fabric_kind::uniform && net.shuffle_local;
  auto when = now_ + (shuffled ? drawn_latency() : net.local);
  if (shuffled) {
    // At equal times the queue's insertion order decides.
    auto& last = to->last_from[index_of(self)];
    last = when = std::max(last, when);
  }
  record* r = nullptr;
  const auto s = fill(r, kind::deliver, from.node, to->node);
  r->e = std::move(e);
  r->plan = plan;
  r->session = serial_of(from.node, plan);
  queue_.push(when, s);
}

// Schedules the copies of a delivered message. They arrive later than the message: messages of a
// pair may be duplicated but never overtake each other.
void world::deliver_again(record& r) {
  const auto more = std::exchange(r.e.h.trace, 0u);
  for (std::uint32_t i = 1; i <= more; ++i) {
    record* again = nullptr;
    const auto wait = 3 * drawn_latency();
    const auto original = r.e;
    const auto lives = std::pair(r.from_life, r.to_life);
    const auto nodes = std::pair(r.from, r.to);
    const auto of = std::pair(r.plan, r.session);
    const auto s = fill(again, kind::deliver, nodes.first, nodes.second);
    again->plan = of.first, again->session = of.second;
    again->from_life = lives.first, again->to_life = lives.second;
    again->e = original;
    again->e.h.attempt = static_cast<std::uint8_t>(i);
    queue_.push(now_ + wait, s);
  }
}

void world::send_remote(const hosted& from, const hosted& to, std::uint32_t plan, envelope&& e) {
  const auto in = plan == 0 ? 0 : session ? session(from.node, to.node) : 1;
  if (plan != 0 && in == 0) {
    ++report_.counts.lost_with_session;
    return;
  }
  auto& l = routes_.between(from.node, to.node);
  const auto bytes = tensor_bytes(e.body);
  ++l.sum.messages;
  l.sum.bytes += bytes + sizeof(header);
  if (plan != 0 && l.cut)
    l.held.push_back({plan, in, std::move(e)});
  else
    carry(l, std::move(e), bytes, plan, in);
}

// `in`: session; 0: of plan 0.
void world::carry(route& l, envelope&& e, std::uint64_t bytes, std::uint32_t plan, std::uint64_t in) {
  parcel p;
  p.plan = plan;
  p.session = in;
  p.bytes = bytes;
  // The other side of the connection may not be up yet; what arrives before would be lost.
  if (plan != 0 && session && session(l.to, l.from) < in) p.longer = config_.connects_within + duration(1);
  if (routes_.reliable()) return put(l, std::move(e), p);
  if (l.sends_in != in) routes_.send_in(l, in, report_.counts);
  auto f = l.sender->send(std::move(e), now_);
  p.what = kind::frame;
  p.number = f.sequence;
  const auto index = routes_.index_of(l);
  put(l, std::move(f.e), p);
  arm(routes_[index]);
}

// Puts a message on the wire, subject to the faults of the wire.
void world::put(route& l, envelope&& e, const parcel& p) {
  faults::verdict v;
  if (faults_.any()) v = faults_.on_wire(l.from, l.to, now_, report_.counts);
  if (v.lost) return;
  if (v.twice) launch(l, envelope(e), p, v.longer);
  launch(l, std::move(e), p, v.longer);
}

void world::launch(route& l, envelope&& e, const parcel& p, duration longer) {
  const auto& net = config_.network;
  record* r = nullptr;
  const auto s = fill(r, p.what, l.from, l.to);
  r->e = std::move(e);
  r->number = p.number;
  r->attempt = p.attempt;
  r->answers = p.answers;
  r->plan = p.plan;
  r->session = p.session;
  r->route = routes_.index_of(l);
  r->keeps_order = routes_.reliable();
  longer += p.longer;
  if (net.fabric != fabric_kind::uniform) {
    r->bytes = p.bytes + sizeof(header);
    r->longer = longer;
    r->tail = now_;
    return pass(s, *r);
  }
  const auto known = crossing ? crossing(l.from, l.to, p.bytes) : std::nullopt;
  auto when = now_ + (known ? *known : drawn_latency()) + longer;
  if (!known && net.bytes_per_second > 0)
    when += duration(static_cast<std::int64_t>(1e9 * static_cast<double>(p.bytes) / net.bytes_per_second));
  if (r->keeps_order) {
    auto& last = place(p.plan, r->e.h.dst).last_from[index_of(r->e.h.src)];
    last = when = std::max(last, when);
  }
  queue_.push(when, s);
}

// The head has arrived at the next link of its path.
void world::pass(slot s, record& r) {
  auto& l = routes_[r.route];
  const auto p = routes_.wires().pass(l.way.links[r.hop++], now_, r.tail, r.bytes);
  r.tail = p.tail;
  if (r.hop < l.way.count) return queue_.push(p.head, s);
  auto when = p.tail + r.longer;
  if (const auto j = config_.network.jitter; j.count() > 0)
    when += duration(static_cast<std::int64_t>(random_.below(static_cast<std::uint64_t>(j.count()) + 1)));
  if (r.keeps_order) l.last = when = std::max(l.last, when);
  queue_.push(when, s);
}

void world::arm(route& l) {
  if (l.timer) return;
  const auto due = l.sender->due();
  if (!due) return;
  l.timer = true;
  record* r = nullptr;
  const auto s = fill(r, kind::resend, l.from, l.to);
  r->route = routes_.index_of(l);
  queue_.push(std::max(*due, now_), s);
}

void world::resend(std::uint32_t index) {
  routes_[index].timer = false;
  auto& now = routes_[index];
  if (now.sends_in != 0 && session && session(now.from, now.to) != now.sends_in) return routes_.send_in(now, 0, report_.counts);
  for (auto& f : now.sender->overdue(now_)) {
    parcel p;
    p.what = kind::frame;
    p.session = routes_[index].sends_in;
    p.number = f.sequence;
    p.bytes = tensor_bytes(f.e.body);
    p.attempt = f.attempt;
    put(routes_[index], std::move(f.e), p);
  }
  arm(routes_[index]);
}

void world::take_frame(record& r) {
  auto& there = routes_[r.route];
  if (r.session != 0 && session && session(r.to, r.from) != r.session) return;  // counted by the sender's channel
  if (there.takes_in != r.session) routes_.take_in(there, r.session, report_.counts);
  auto arrived = std::move(buffers_.arrived);
  const auto answer = there.receiver->take({r.number, r.attempt, std::move(r.e)}, arrived);
  auto& back = routes_.between(there.to, there.from);
  parcel p;
  p.what = kind::acknowledgement;
  p.session = r.session;
  p.number = answer.count;
  p.attempt = answer.attempt;
  p.answers = answer.answers;
  put(back, {}, p);
  for (auto& e : arrived) {
    if (has_to_wait(r.to)) {
      record* late = nullptr;
      const auto s = fill(late, kind::deliver, r.from, r.to);
      late->from_life = r.from_life, late->to_life = r.to_life;
      late->session = r.session;
      late->sent = r.sent;
      late->arrived = true;
      late->e = std::move(e);
      put_aside(s, *late);
      continue;
    }
    r.e = std::move(e);
    deliver(r);
  }
  arrived.clear();
  buffers_.arrived = std::move(arrived);
}

void world::take_acknowledgement(record& r) {
  auto& l = routes_.between(r.to, r.from);
  if (l.sends_in == r.session) l.sender->acknowledged({r.number, r.answers, r.attempt}, now_);
}

void world::cut(std::uint32_t from, std::uint32_t to) {
  if (!begun_) begin();
  routes_.between(from, to).cut = true;
}

void world::mend(std::uint32_t from, std::uint32_t to) {
  if (!begun_) begin();
  const auto index = routes_.index_of(routes_.between(from, to));
  routes_[index].cut = false;
  for (auto& w : std::exchange(routes_[index].held, {})) {
    // If no node hosts the plan any more, nobody would take the message.
    const bool stands = !session || session(from, to) == w.session;
    if (stands && plans_[w.plan].spawned > 0)
      carry(routes_[index], std::move(w.e), tensor_bytes(w.e.body), w.plan, w.session);
    else
      ++report_.counts.lost_with_session;
  }
}

}  // namespace troupe::sim
