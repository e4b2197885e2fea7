// The hub's shared memory: which member fills it, which members wait for it, and when it is
// removed. The bytes are with the host.
#include <algorithm>
#include <utility>

#include "runtime/exchange/hub/hub.hpp"
#include "runtime/exchange/hub/hub_text.hpp"

namespace troupe::exchange {

// Why this member cannot share this array. Empty if it can.
std::optional<answer> hub::objection(const group& g, const member& m, const share& s) const {
  const auto no = [&](code c, std::string text) { return answer{s.call, c, std::move(text), 0, 0}; };
  if (s.name.empty() || s.count == 0) return no(code::bad_argument, "a shared array needs a name and at least one value");
  if (!lawful(s.type)) return no(code::bad_argument, "a shared array must be float32 or float64");
  const auto known = g.shares.find(s.name);
  if (known != g.shares.end()) {
    const auto& k = known->second;
    if (k.type == s.type && k.count == s.count) return std::nullopt;
    return no(code::mismatch, "shared array " + quoted(s.name) + ": " + rank_text(m.rank) + " shares " +
                                  shape_text(s.count, s.type) + ", " + rank_text(k.shared_by) + " has shared " +
                                  shape_text(k.count, k.type));
  }
  if (shares_ >= limits_.shares)
    return no(code::too_large, "this daemon shares no more than " + std::to_string(limits_.shares) + " arrays");
  if (s.count > limits_.bytes / bytes_of(s.type) || !room_for(s.count * bytes_of(s.type)))
    return no(code::too_large, "shared array " + quoted(s.name) + " of " + shape_text(s.count, s.type) +
                                   " values exceeds the memory that this daemon has left");
  return std::nullopt;
}

void hub::handle(context c, const share& s) {
  if (!next_call(c, s.call)) return;
  if (auto no = objection(c.g, c.m, s)) {
    c.out.emplace_back(send_effect{c.m.client, std::move(*no)});
    return;
  }
  const auto [at, fresh] = c.g.shares.try_emplace(s.name, memory{0, s.type, s.count, c.m.rank, filler{c.m.rank, s.call}, {}});
  auto& it = at->second;
  if (!fresh && !it.by) return hand(c.m, it, contents::full, c.out);
  if (!fresh) {
    it.waiting.push_back(c.m.rank);
    c.m.waits_for_share = it.id;
    return;
  }
  it.id = ++share_ids_;
  ++shares_;
  reserve(c.g, it.bytes());
  held_ += it.bytes();
  c.g.shared += it.bytes();
  hand(c.m, it, contents::empty, c.out);
}

void hub::hand(const member& m, const memory& what, contents now, hub_effects& out) {
  shared_at a;
  a.call = m.last_call;
  a.id = what.id;
  a.now = now;
  out.emplace_back(share_effect{m.client, std::move(a), what.type, what.count});
}

void hub::handle(context c, const filled& f) {
  const auto at = std::find_if(c.g.shares.begin(), c.g.shares.end(), [&](const auto& s) { return s.second.id == f.id; });
  if (at == c.g.shares.end() || !at->second.by || at->second.by->rank != c.m.rank) {
    const auto client = c.m.client;
    return drop(client, "a fill of memory that it was not asked to fill", c.out);
  }
  if (f.now == contents::empty) return pass_on(c.g, at, c.out);
  auto& it = at->second;
  it.by.reset();
  for (const auto rank : std::exchange(it.waiting, {})) {
    auto& m = c.g.members.at(rank);
    m.waits_for_share = 0;
    hand(m, it, contents::full, c.out);
  }
}

// The member that was to fill this share has given up or left: asks the next waiting member, or
// removes the share if there is none.
void hub::pass_on(group& g, memories::iterator at, hub_effects& out) {
  auto& it = at->second;
  if (it.waiting.empty()) {
    out.emplace_back(unshare_effect{it.id});
    --shares_;
    give_up(g, it.bytes());
    held_ -= it.bytes();
    g.shared -= it.bytes();
    g.shares.erase(at);
    return;
  }
  auto& next = g.members.at(it.waiting.front());
  it.waiting.pop_front();
  next.waits_for_share = 0;
  it.by = filler{next.rank, next.last_call};
  hand(next, it, contents::empty, out);
}

// A member leaves: removes it from the waiting lists and passes on the shares that it was to fill.
void hub::stop_sharing(group& g, const member& m, hub_effects& out) {
  for (auto at = g.shares.begin(); at != g.shares.end();) {
    const auto here = at++;
    std::erase(here->second.waiting, m.rank);
    if (here->second.by && here->second.by->rank == m.rank) pass_on(g, here, out);
  }
}

}  // namespace troupe::exchange
