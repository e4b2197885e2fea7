// The hub's members, buffers and locks. hub_rounds.cpp has the calls on buffers, hub_shares.cpp the
// shared memory.
#include "runtime/exchange/hub/hub.hpp"

#include <algorithm>
#include <new>
#include <utility>

#include "runtime/base/number_text.hpp"
#include "runtime/base/printable.hpp"
#include "runtime/exchange/hub/arithmetic.hpp"
#include "runtime/exchange/hub/hub_text.hpp"

namespace troupe::exchange {
namespace {

const char* averaging_method_text(averaging_method l) {
  constexpr const char* names[] = {"average", "easgd", "easgd_sync", "asgd"};
  return names[static_cast<int>(l)];
}

}  // namespace

void hub::on(const std::string& client, const message& m, hub_effects& out) {
  if (const auto* o = std::get_if<open_session>(&m)) return join(client, *o, out);
  const auto at = clients_.find(client);
  if (at == clients_.end()) return drop(client, "a call before the session was opened", out);
  auto& g = groups_.at(at->second.group);
  auto& who = g.members.at(at->second.rank);
  if (std::holds_alternative<leave>(m)) return forget(client, "has closed its session", out);
  const context c{g, who, out};
  std::visit(
      [&]<class M>(const M& x) {
        if constexpr (requires { handle(c, x); })
          handle(c, x);
        else
          drop(client, "a message that only the hub sends", out);
      },
      m);
}

void hub::on_gone(const std::string& client, const std::string& why, hub_effects& out) {
  if (clients_.contains(client)) forget(client, "is lost: " + why, out);
}

std::uint64_t hub::max_unread(const std::string& client) const {
  const auto at = clients_.find(client);
  return (at == clients_.end() ? 0 : groups_.at(at->second.group).largest) + 2 * piece_bytes;
}

void hub::reserve(group& g, std::uint64_t bytes) {
  reserved_ += bytes;
  g.reserved += bytes;
}

void hub::give_up(group& g, std::uint64_t bytes) {
  reserved_ -= bytes;
  g.reserved -= bytes;
}

void hub::make_centre(buffer& b, const block& values) {
  b.centre = copy_of(values, b.bytes());
  held_ += b.bytes();
}

std::optional<answer> hub::objection(const open_session& o) const {
  const auto no = [](code c, std::string text) { return answer{0, c, std::move(text), 0, 0}; };
  if (o.version != protocol)
    return no(code::mismatch, "this library uses version " + std::to_string(o.version) +
                                  " of the exchange protocol, the daemon version " + std::to_string(protocol));
  const bool any = o.rank == any_rank;
  const auto who = any ? "an unnumbered rank" : rank_text(o.rank);
  if (const auto fine = check_name(o.session); !fine && !o.session.empty())
    return no(code::bad_argument, "session: " + fine.error().text);
  if (o.session.empty() || o.size == 0 || (o.rank >= o.size && !any))
    return no(code::bad_argument, "a session needs a name, and a rank below its size: " + who + " of " + std::to_string(o.size));
  if (!(o.alpha >= 0 && o.alpha < 1)) return no(code::bad_argument, "alpha must be in [0, 1)");
  if (o.size > limits_.group_size || clients_.size() >= limits_.clients)
    return no(code::too_large, "this daemon accepts sessions of at most " + std::to_string(limits_.group_size) +
                                   " ranks, and at most " + std::to_string(limits_.clients) + " processes in total");
  if (!room_for(limits_.client_bytes))
    return no(code::too_large, "this daemon has no memory left for one more process: " + std::to_string(clients_.size()) +
                                   " are connected, and their sessions have reserved " + std::to_string(reserved_) + " of " +
                                   std::to_string(limits_.bytes) + " bytes");
  const auto at = groups_.find(o.session);
  if (at == groups_.end()) return std::nullopt;
  const auto& g = at->second;
  const auto there = " in session " + quoted(o.session);
  if (o.size != g.size)
    return no(code::mismatch, who + " has size " + std::to_string(o.size) + ", the others have " + std::to_string(g.size) + there);
  if (o.how != g.how || o.alpha != g.alpha)
    return no(code::mismatch, who + " has " + averaging_method_text(o.how) + " with alpha " + number_text(o.alpha) +
                                  ", the others have " + averaging_method_text(g.how) + " with alpha " + number_text(g.alpha) +
                                  there);
  if (any && g.members.size() == g.size) return no(code::rank_taken, "all ranks are taken" + there);
  if (g.members.contains(o.rank)) return no(code::rank_taken, who + " is taken" + there);
  return std::nullopt;
}

void hub::join(const std::string& client, const open_session& o, hub_effects& out) {
  if (clients_.contains(client)) return drop(client, "a session opened twice", out);
  if (auto no = objection(o)) {
    out.emplace_back(send_effect{client, std::move(*no)});
    return;
  }
  auto& g = groups_[o.session];
  if (g.members.empty()) {
    g.name = o.session;
    g.size = o.size;
    g.how = o.how;
    g.alpha = o.alpha;
  }
  auto rank = o.rank;
  if (rank == any_rank)
    for (rank = 0; g.members.contains(rank);) ++rank;
  g.gone.erase(rank);
  auto& m = g.members[rank];
  m.client = client;
  m.rank = rank;
  clients_[client] = {o.session, rank};
  reserve(g, limits_.client_bytes);
  out.emplace_back(
      note_effect{"exchange " + quoted(g.name) + ": " + rank_text(rank) + " of " + std::to_string(g.size) + " has joined"});
  out.emplace_back(send_effect{client, answer{0, code::ok, {}, rank, 0}});
}

// Returns false and drops the client if it makes a second call at a time or repeats a call number.
bool hub::next_call(context c, std::uint64_t call) {
  if (c.m.pending || !c.m.waits_for.empty() || c.m.waits_for_share != 0 || call <= c.m.last_call) {
    const auto client = c.m.client;
    drop(client, "a second call before the answer to the first, or a repeated call number", c.out);
    return false;
  }
  c.m.last_call = call;
  c.m.moved = false;
  c.m.granted.clear();
  return true;
}

void hub::handle(context c, const declare& d) {
  if (!next_call(c, d.call)) return;
  const auto known = std::find_if(c.g.buffers.begin(), c.g.buffers.end(), [&](const auto& b) { return b.name == d.name; });
  if (known != c.g.buffers.end()) {
    if (known->type != d.type || known->count != d.count)
      return reply(c.m, code::mismatch,
                   "buffer " + quoted(d.name) + ": " + rank_text(c.m.rank) + " registers " + shape_text(d.count, d.type) + ", " +
                       rank_text(known->declared_by) + " has registered " + shape_text(known->count, known->type),
                   c.out);
    answer a{d.call, code::ok, {}, static_cast<std::uint32_t>(known - c.g.buffers.begin()), 0};
    c.out.emplace_back(send_effect{c.m.client, std::move(a)});
    return;
  }
  if (d.name.empty() || d.count == 0) return reply(c.m, code::bad_argument, "a buffer needs a name and at least one value", c.out);
  if (const auto fine = check_name(d.name); !fine && d.name != team_name)
    return reply(c.m, code::bad_argument, "buffer: " + fine.error().text, c.out);
  // Every buffer may have a centre. Every member may have one part in the round and one answer in
  // flight.
  const auto most = limits_.bytes / (2 * c.g.size);
  const bool absurd = c.g.buffers.size() >= limits_.buffers || d.count > most / bytes_of(d.type);
  const std::uint64_t bytes = absurd ? 0 : d.count * bytes_of(d.type), wider = std::max(c.g.largest, bytes);
  const auto wanted = limits_.entry_bytes + bytes + 2 * c.g.size * (wider - c.g.largest);
  if (absurd || !room_for(wanted))
    return reply(
        c.m, code::too_large,
        "buffer " + quoted(d.name) + " of " + shape_text(d.count, d.type) + " values exceeds the memory that this daemon has left",
        c.out);
  reserve(c.g, wanted);
  c.g.largest = wider;
  c.g.buffers.push_back({d.name, d.type, d.count, c.m.rank, nullptr});
  answer a{d.call, code::ok, {}, static_cast<std::uint32_t>(c.g.buffers.size() - 1), 0};
  c.out.emplace_back(send_effect{c.m.client, std::move(a)});
}

void hub::handle(context c, const take_lock& t) {
  if (!next_call(c, t.call)) return;
  if (t.name.empty()) return reply(c.m, code::bad_argument, "a lock needs a name", c.out);
  if (const auto fine = check_name(t.name); !fine) return reply(c.m, code::bad_argument, "lock: " + fine.error().text, c.out);
  const auto at = c.g.locks.find(t.name);
  if (at == c.g.locks.end()) {
    if (c.g.locks.size() >= limits_.locks)
      return reply(c.m, code::too_large, "a session may hold at most " + std::to_string(limits_.locks) + " locks at once", c.out);
    if (!room_for(limits_.entry_bytes))
      return reply(c.m, code::too_large, "lock " + quoted(t.name) + " exceeds the memory that this daemon has left", c.out);
    reserve(c.g, limits_.entry_bytes);
    c.g.locks[t.name].holder = c.m.rank;
    c.m.granted = t.name;
    return reply(c.m, code::ok, {}, c.out);
  }
  if (at->second.holder == c.m.rank)
    return reply(c.m, code::bad_argument, "lock " + quoted(t.name) + " is already held by this rank", c.out);
  at->second.waiting.push_back(c.m.rank);
  c.m.waits_for = t.name;
}

void hub::handle(context c, const free_lock& f) {
  if (!next_call(c, f.call)) return;
  const auto at = c.g.locks.find(f.name);
  if (at == c.g.locks.end() || at->second.holder != c.m.rank)
    return reply(c.m, code::not_held, "lock " + quoted(f.name) + " is not held by this rank", c.out);
  release(c.g, f.name, c.out);
  reply(c.m, code::ok, {}, c.out);
}

// Passes the lock to the next waiting rank.
void hub::release(group& g, const std::string& name, hub_effects& out) {
  const auto at = g.locks.find(name);
  if (at->second.waiting.empty()) {
    g.locks.erase(at);
    give_up(g, limits_.entry_bytes);
    return;
  }
  auto& next = g.members.at(at->second.waiting.front());
  at->second.waiting.pop_front();
  at->second.holder = next.rank;
  next.granted = std::exchange(next.waits_for, {});
  reply(next, code::ok, {}, out);
}

void hub::handle(context c, const cancel& x) {
  if (x.call != c.m.last_call) return;
  if (c.m.pending) {
    c.m.pending.reset();
  } else if (!c.m.waits_for.empty()) {
    std::erase(c.g.locks.at(c.m.waits_for).waiting, c.m.rank);
    c.m.waits_for.clear();
  } else if (!c.m.granted.empty()) {
    release(c.g, std::exchange(c.m.granted, {}), c.out);
  } else if (c.m.waits_for_share != 0) {
    for (auto& [name, s] : c.g.shares)
      if (s.id == c.m.waits_for_share) std::erase(s.waiting, c.m.rank);
    c.m.waits_for_share = 0;
  } else if (const auto mine = std::find_if(
                 c.g.shares.begin(), c.g.shares.end(),
                 [&](const auto& s) { return s.second.by && s.second.by->rank == c.m.rank && s.second.by->call == x.call; });
             mine != c.g.shares.end()) {
    pass_on(c.g, mine, c.out);
  } else if (c.m.moved) {
    c.m.out_of_step =
        rank_text(c.m.rank) + "'s deadline passed just as its step completed; it must close the session and open it again";
  }
}

void hub::forget(const std::string& client, const std::string& how, hub_effects& out) {
  const seat s = clients_.at(client);
  clients_.erase(client);
  auto& g = groups_.at(s.group);
  const auto text = rank_text(s.rank) + " " + how;
  out.emplace_back(note_effect{"exchange " + quoted(g.name) + ": " + text});
  const auto waits_for = g.members.at(s.rank).waits_for;
  stop_sharing(g, g.members.at(s.rank), out);
  give_up(g, limits_.client_bytes);
  g.members.erase(s.rank);
  if (g.members.empty()) {
    for (const auto& [name, shared] : g.shares) out.emplace_back(unshare_effect{shared.id});
    for (const auto& b : g.buffers) held_ -= b.centre ? b.bytes() : 0;
    held_ -= g.shared;
    shares_ -= g.shares.size();
    reserved_ -= g.reserved;
    groups_.erase(s.group);
    return;
  }
  g.gone[s.rank] = text;
  if (!waits_for.empty()) std::erase(g.locks.at(waits_for).waiting, s.rank);
  std::vector<std::string> held;
  for (const auto& [name, l] : g.locks)
    if (l.holder == s.rank) held.push_back(name);
  for (const auto& name : held) release(g, name, out);
  fail_round(g, code::peer_lost, text, out);
}

void hub::drop(const std::string& client, const std::string& why, hub_effects& out) {
  if (clients_.contains(client)) forget(client, "violated the protocol: " + why, out);
  out.emplace_back(drop_effect{client, why});
}

void hub::reply(const member& m, code c, std::string text, hub_effects& out) {
  out.emplace_back(send_effect{m.client, answer{m.last_call, c, std::move(text), 0, 0}});
}

void hub::reply_with(member& m, const block& data, std::uint64_t bytes, hub_effects& out, std::uint64_t from) {
  out.emplace_back(send_effect{m.client, answer{m.last_call, code::ok, {}, 0, bytes}});
  for (std::uint64_t at = 0; at < bytes; at += piece_bytes) {
    const auto n = static_cast<std::size_t>(std::min<std::uint64_t>(piece_bytes, bytes - at));
    out.emplace_back(send_effect{m.client, piece{m.last_call, at, {data, data.get() + from + at, n}}});
  }
}

}  // namespace troupe::exchange
