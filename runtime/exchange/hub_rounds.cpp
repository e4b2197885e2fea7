// The hub's calls on buffers: parts come in, steps and rounds are done. hub.cpp has members, buffers and locks.
#include <cstring>
#include <new>

#include "runtime/exchange/arithmetic.hpp"
#include "runtime/exchange/hub.hpp"

namespace troupe::exchange {

bool hub::is_round(const group& g, verb v) {
  return v == verb::all_reduce || v == verb::team || v == verb::broadcast || v == verb::barrier ||
         (v == verb::exchange && g.how != law::easgd);
}

bool hub::gives_data(const begin& b, std::uint32_t rank) {
  return b.what == verb::exchange || b.what == verb::all_reduce || (b.what == verb::broadcast && b.argument == rank);
}

std::string hub::words(const group& g, const begin& b) {
  constexpr const char* names[] = {"exchange", "all_reduce", "broadcast", "centre", "barrier", "all_reduce in shared memory"};
  std::string out = names[static_cast<int>(b.what)];
  if (b.what == verb::barrier) return out;
  out += " of '" + g.buffers[b.buffer].name + "'";
  if (b.what == verb::all_reduce || b.what == verb::team) out += b.argument == 0 ? ", sum" : ", mean";
  if (b.what == verb::broadcast) out += " from rank " + std::to_string(b.argument);
  return out;
}

// Why this call cannot be made.
std::optional<answer> hub::objection(const group& g, const member& m, const begin& b) const {
  const auto no = [&](code c, std::string text) { return answer{b.call, c, std::move(text), 0, 0}; };
  if (b.what != verb::barrier && b.buffer >= g.buffers.size()) return no(code::bad_argument, "no buffer has this number");
  if ((b.what == verb::all_reduce || b.what == verb::team) && b.argument >= reductions)
    return no(code::bad_argument, "all_reduce takes sum or mean");
  if (b.what == verb::broadcast && b.argument >= g.size)
    return no(code::bad_argument, "there is no rank " + std::to_string(b.argument) + " to broadcast from");
  if (b.what == verb::centre && !g.buffers[b.buffer].centre)
    return no(code::bad_argument, "buffer '" + g.buffers[b.buffer].name + "' has no centre: nobody has exchanged it yet");
  if (b.what == verb::centre) return std::nullopt;
  if (!m.out_of_step.empty()) return no(code::out_of_step, m.out_of_step);
  if (!is_round(g, b.what)) return std::nullopt;
  if (!g.gone.empty()) return no(code::peer_lost, g.gone.begin()->second);
  for (const auto& [rank, other] : g.members)
    if (!other.out_of_step.empty()) return no(code::out_of_step, other.out_of_step);
  return std::nullopt;
}

void hub::handle(context c, const begin& b) {
  if (!next_call(c, b.call)) return;
  if (auto no = objection(c.g, c.m, b)) {
    c.out.emplace_back(send_effect{c.m.client, std::move(*no)});
    return;
  }
  if (is_round(c.g, b.what))
    for (const auto& [rank, other] : c.g.members) {
      if (!other.pending) continue;
      const auto& p = other.pending->call;
      if (!is_round(c.g, p.what) || (p.what == b.what && p.buffer == b.buffer && p.argument == b.argument)) continue;
      const auto text = "rank " + std::to_string(c.m.rank) + " calls " + words(c.g, b) + " while rank " + std::to_string(rank) +
                        " is in " + words(c.g, p);
      reply(c.m, code::mismatch, text, c.out);
      return fail_round(c.g, code::mismatch, text, c.out);
    }
  part p;
  p.call = b;
  if (gives_data(b, c.m.rank)) {
    p.expected = c.g.buffers[b.buffer].bytes();
    try {
      p.data = make_block(p.expected);
    } catch (const std::bad_alloc&) {
      return reply(c.m, code::too_large, "the daemon is out of memory", c.out);
    }
  }
  c.m.pending = std::move(p);
  if (c.m.pending->complete()) step_alone(c);
}

void hub::handle(context c, const piece& p) {
  const auto client = c.m.client;
  if (p.call != c.m.last_call) return drop(client, "values that belong to no call", c.out);
  if (!c.m.pending) return;  // refused, failed or taken back meanwhile
  auto& mine = *c.m.pending;
  if (p.data.size == 0 || p.offset != mine.filled || p.data.size > mine.expected - mine.filled)
    return drop(client, "values out of order, none or too many", c.out);
  std::memcpy(mine.data.get() + p.offset, p.data.data, p.data.size);
  mine.filled += p.data.size;
  if (mine.complete()) step_alone(c);
}

// A part is complete: what needs nobody else is done now, and maybe the round is.
void hub::step_alone(context c) {
  if (is_round(c.g, c.m.pending->call.what)) return finish_round(c.g, c.out);
  const part p = std::move(*c.m.pending);
  c.m.pending.reset();
  auto& b = c.g.buffers[p.call.buffer];
  try {
    if (p.call.what == verb::centre) return reply_with(c.m, copy_of(b.centre, b.bytes()), b.bytes(), c.out);
    // The first worker's values are the centre; from then on every worker and the centre pull each other.
    if (!b.centre) {
      b.centre = copy_of(p.data, b.bytes());
      return reply(c.m, code::ok, {}, c.out);
    }
  } catch (const std::bad_alloc&) {
    return reply(c.m, code::too_large, "the daemon is out of memory", c.out);
  }
  if (c.g.alpha == 0) return reply(c.m, code::ok, {}, c.out);  // exactly nothing, also for values that are not finite
  pull(b.type, p.data.get(), b.centre.get(), b.count, c.g.alpha);
  c.m.moved = true;
  reply_with(c.m, p.data, b.bytes(), c.out);
}

void hub::finish_round(group& g, hub_effects& out) {
  std::vector<block> values;
  begin what;
  for (auto& [rank, m] : g.members) {
    if (!m.pending || !is_round(g, m.pending->call.what) || !m.pending->complete()) return;
    what = m.pending->call;
    if (m.pending->data) values.push_back(m.pending->data);
  }
  if (g.members.size() != g.size) return;
  buffer* b = what.what == verb::barrier ? nullptr : &g.buffers[what.buffer];
  const bool elastic = what.what == verb::exchange && g.how == law::easgd_sync;
  if (elastic && !b->centre) try {
      b->centre = copy_of(values[0], b->bytes());
    } catch (const std::bad_alloc&) {
      return fail_round(g, code::too_large, "the daemon is out of memory", out);
    }
  if (elastic && g.alpha != 0) pull_all(b->type, values, b->centre.get(), b->count, g.alpha);
  const bool reduces = what.what == verb::all_reduce || (what.what == verb::exchange && g.how == law::average);
  if (reduces) {
    fold(b->type, values, b->count);
    const bool mean = what.what == verb::exchange || what.argument == static_cast<std::uint32_t>(reduction::mean);
    if (mean) divide(b->type, values[0].get(), b->count, g.size);
  }
  for (auto& [rank, m] : g.members) {
    m.pending.reset();
    m.moved = true;
    if (reduces || (what.what == verb::broadcast && rank != what.argument))
      reply_with(m, values[0], b->bytes(), out);
    else if (elastic && g.alpha != 0)
      reply_with(m, values[rank], b->bytes(), out);
    else
      reply(m, code::ok, {}, out);
  }
}

// Everybody who has a part in the round hears that it will not be; nothing has changed.
void hub::fail_round(group& g, code why, const std::string& text, hub_effects& out) {
  for (auto& [rank, m] : g.members) {
    if (!m.pending || !is_round(g, m.pending->call.what)) continue;
    m.pending.reset();
    reply(m, why, text, out);
  }
}

}  // namespace troupe::exchange
