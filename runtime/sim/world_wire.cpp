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
  throw std::logic_error("role " + std::to_string(index_of(self)) + " sends '" + name_of(e.body) +
                         "' with header fields that this type does not use: " + fields);
}

duration world::drawn_latency() {
  const auto& n = config_.network;
  const auto spread = static_cast<std::uint64_t>((n.most - n.least).count());
  return n.least + duration(static_cast<std::int64_t>(random_.below(spread + 1)));
}

void world::send(role_id self, envelope&& e) {
  if (!config_.allow_mistakes) fail_on_stray_fields(self, e);
  auto* to = at_home(e.h.dst);
  auto& from = roles_[index_of(self)];
  e.h.incarnation = from.incarnation;
  if (!to) {
    // The destination is down or does not exist.
    if (index_of(e.h.dst) < roles_.size() && roles_[index_of(e.h.dst)].there) ++report_.counts.lost_in_crash;
    return;
  }
  if (config_.dev) {
    auto& there = from.node == to->node ? *to->dev : to->dev->host();  // messages to other nodes leave from host memory
    if (crosses(e, *from.dev, there)) cross(e, leaving_stream_of(from), there);
    freeze(e);
  }
  int n = copies ? copies(e, random_) : 1;
  // Messages within a node are passed in memory; only messages between nodes may be duplicated.
  if (faults_.any() && from.node != to->node && faults_.twice_above(from.node, to->node, now_, report_.counts)) ++n;
  e.h.trace = static_cast<std::uint32_t>(std::max(n - 1, 0));
  if (n <= 0) return;
  if (from.node != to->node) return send_remote(from, *to, std::move(e));
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
    const auto s = fill(again, kind::deliver, nodes.first, nodes.second);
    again->from_life = lives.first, again->to_life = lives.second;
    again->e = original;
    again->e.h.attempt = static_cast<std::uint8_t>(i);
    queue_.push(now_ + wait, s);
  }
}

void world::send_remote(const hosted& from, hosted& to, envelope&& e) {
  const auto bytes = tensor_bytes(e.body);
  auto& l = routes_.between(from.node, to.node);
  ++l.sum.messages;
  l.sum.bytes += bytes + sizeof(header);
  if (routes_.reliable()) return put(l, std::move(e), kind::deliver, 0, bytes);
  auto f = l.sender->send(std::move(e), now_);
  put(l, std::move(f.e), kind::frame, f.sequence, bytes);
  arm(routes_.between(from.node, to.node));
}

// Puts a message on the wire, subject to the faults of the wire.
void world::put(route& l, envelope&& e, kind what, std::uint64_t number, std::uint64_t bytes, std::uint32_t attempt,
                std::uint64_t answers) {
  faults::verdict v;
  if (faults_.any()) v = faults_.on_wire(l.from, l.to, now_, report_.counts);
  if (v.lost) return;
  if (v.twice) launch(l, envelope(e), what, number, bytes, attempt, answers, v.longer);
  launch(l, std::move(e), what, number, bytes, attempt, answers, v.longer);
}

void world::launch(route& l, envelope&& e, kind what, std::uint64_t number, std::uint64_t bytes, std::uint32_t attempt,
                   std::uint64_t answers, duration longer) {
  const auto& net = config_.network;
  record* r = nullptr;
  const auto s = fill(r, what, l.from, l.to);
  r->e = std::move(e);
  r->number = number;
  r->attempt = attempt;
  r->answers = answers;
  r->route = routes_.index_of(l);
  r->keeps_order = routes_.reliable();
  if (net.fabric != fabric_kind::uniform) {
    r->bytes = bytes + sizeof(header);
    r->longer = longer;
    r->tail = now_;
    return pass(s, *r);
  }
  const auto known = crossing ? crossing(l.from, l.to, bytes) : std::nullopt;
  auto when = now_ + (known ? *known : drawn_latency()) + longer;
  if (!known && net.bytes_per_second > 0)
    when += duration(static_cast<std::int64_t>(1e9 * static_cast<double>(bytes) / net.bytes_per_second));
  if (r->keeps_order) {
    auto& last = roles_[index_of(r->e.h.dst)].last_from[index_of(r->e.h.src)];
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
  for (auto& f : routes_[index].sender->overdue(now_)) {
    const auto bytes = tensor_bytes(f.e.body);
    put(routes_[index], std::move(f.e), kind::frame, f.sequence, bytes, f.attempt);
  }
  arm(routes_[index]);
}

void world::take_frame(record& r) {
  auto& there = routes_[r.route];
  auto arrived = std::move(buffers_.arrived);
  const auto answer = there.receiver->take({r.number, r.attempt, std::move(r.e)}, arrived);
  auto& back = routes_.between(there.to, there.from);
  put(back, {}, kind::acknowledgement, answer.count, 0, answer.attempt, answer.answers);
  for (auto& e : arrived) {
    r.e = std::move(e);
    deliver(r);
  }
  arrived.clear();
  buffers_.arrived = std::move(arrived);
}

void world::take_acknowledgement(record& r) {
  auto& l = routes_.between(r.to, r.from);
  l.sender->acknowledged({r.number, r.answers, r.attempt}, now_);
}

}  // namespace troupe::sim
