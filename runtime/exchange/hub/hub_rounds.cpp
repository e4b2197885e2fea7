// The hub's calls on buffers: collects parts, completes steps and rounds. hub.cpp has members,
// buffers and locks.
#include <cstring>
#include <new>

#include "runtime/exchange/hub/arithmetic.hpp"
#include "runtime/exchange/hub/hub.hpp"
#include "runtime/exchange/hub/hub_text.hpp"
#include "runtime/exchange/hub/parts.hpp"

namespace troupe::exchange {

namespace {

bool same_call(const begin& a, const begin& b) {
  return a.what == b.what && a.buffer == b.buffer && a.argument == b.argument && a.how == b.how;
}

}  // namespace

bool hub::is_round(const group& g, collective_op v) {
  if (v == collective_op::exchange) return g.how == averaging_method::average || g.how == averaging_method::easgd_sync;
  return v != collective_op::centre;
}

std::string hub::call_text(const group& g, const begin& b) {
  constexpr const char* names[collective_ops] = {"exchange",       "all_reduce", "broadcast", "centre", "barrier",
                                                 "reduce_scatter", "all_gather", "gather",    "scatter"};
  constexpr const char* reductions_by_name[reductions] = {"sum", "mean", "min", "max", "product"};
  std::string out = names[static_cast<int>(b.what)];
  if (b.what == collective_op::barrier) return out;
  if (b.how == meeting::in_memory) out += " in shared memory";
  out += " of '" + g.buffers[b.buffer].name + "'";
  if (reduces(b.what)) out += std::string(", ") + reductions_by_name[b.argument];
  if (has_root(b.what)) out += (b.what == collective_op::gather ? " to rank " : " from rank ") + std::to_string(b.argument);
  return out;
}

// Checks a call, independent of the other ranks.
expected<void> hub::check_call(const group& g, const begin& b) {
  const auto refused = [](std::string why) { return unexpected(error(std::move(why))); };
  if (b.what == collective_op::barrier && b.how == meeting::in_memory) return refused("a barrier has no values");
  if (b.what == collective_op::barrier) return {};
  if (b.buffer >= g.buffers.size()) return refused("there is no buffer of this number");
  const auto& of = g.buffers[b.buffer];
  if (reduces(b.what) && b.argument >= reductions) return refused("unknown reduction");
  if (reduces(b.what) && b.argument == static_cast<std::uint32_t>(reduction::mean) && whole_numbers(of.type))
    return refused("integers have no mean: buffer '" + of.name + "' is " + shape_text(of.count, of.type));
  if (has_root(b.what) && b.argument >= g.size) return refused("there is no rank " + std::to_string(b.argument));
  if ((b.what == collective_op::exchange || b.what == collective_op::centre) && !lawful(of.type))
    return refused("exchange and centre need float32 or float64: buffer '" + of.name + "' is " + shape_text(of.count, of.type));
  if (b.how == meeting::in_memory && !is_round(g, b.what)) return refused("only rounds can meet in shared memory");
  if (b.what == collective_op::centre && !of.centre)
    return refused("buffer '" + of.name + "' has no centre yet: no rank has exchanged it");
  if (b.what == collective_op::exchange && g.how == averaging_method::asgd && b.argument == 0 && !of.centre)
    return refused("buffer '" + of.name + "' has no centre yet to which a difference could be added");
  return {};
}

// Why this call cannot be made now. Empty if it can.
std::optional<answer> hub::objection(const group& g, const member& m, const begin& b) const {
  const auto no = [&](code c, std::string text) { return answer{b.call, c, std::move(text), 0, 0}; };
  if (auto valid = check_call(g, b); !valid) return no(code::bad_argument, valid.error().text);
  if (b.what == collective_op::centre) return std::nullopt;
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
      if (!is_round(c.g, p.what) || same_call(p, b)) continue;
      const auto text = "rank " + std::to_string(c.m.rank) + " calls " + call_text(c.g, b) + " while rank " + std::to_string(rank) +
                        " is in " + call_text(c.g, p);
      reply(c.m, code::mismatch, text, c.out);
      return fail_round(c.g, code::mismatch, text, c.out);
    }
  part p;
  p.call = b;
  if (b.what != collective_op::barrier) {
    const auto& of = c.g.buffers[b.buffer];
    p.expected = given(b, of.count, c.m.rank, c.g.size).count * bytes_of(of.type);
  }
  if (p.expected > 0) {
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
  if (!c.m.pending) return;  // it was rejected, failed or cancelled meanwhile
  auto& mine = *c.m.pending;
  if (p.data.size == 0 || p.offset != mine.filled || p.data.size > mine.expected - mine.filled)
    return drop(client, "values are empty, out of order or too many", c.out);
  std::memcpy(mine.data.get() + p.offset, p.data.data, p.data.size);
  mine.filled += p.data.size;
  if (mine.complete()) step_alone(c);
}

// A part is complete. Answers a call that needs no other rank, or completes the round if it was the
// last part.
void hub::step_alone(context c) {
  if (is_round(c.g, c.m.pending->call.what)) return finish_round(c.g, c.out);
  const part p = std::move(*c.m.pending);
  c.m.pending.reset();
  auto& b = c.g.buffers[p.call.buffer];
  try {
    if (p.call.what == collective_op::centre) return reply_with(c.m, copy_of(b.centre, b.bytes()), b.bytes(), c.out);
    // The first exchanged values become the centre. Later exchanges move the worker and the centre
    // towards each other.
    if (!b.centre) {
      make_centre(b, p.data);
      return reply(c.m, code::ok, {}, c.out);
    }
  } catch (const std::bad_alloc&) {
    return reply(c.m, code::too_large, "the daemon is out of memory", c.out);
  }
  if (c.g.how == averaging_method::asgd) return step_by_asgd(c, b, p);
  if (c.g.alpha == 0) return reply(c.m, code::ok, {}, c.out);  // no change at all, also for values that are not finite
  pull(b.type, p.data.get(), b.centre.get(), b.count, c.g.alpha);
  c.m.moved = true;
  reply_with(c.m, p.data, b.bytes(), c.out);
}

// Adds the worker's difference to the centre and answers with the centre. A new worker (argument 1)
// only gets the centre.
void hub::step_by_asgd(context c, buffer& b, const part& p) {
  if (p.call.argument == 0) {
    add(b.type, b.centre.get(), p.data.get(), b.count);
    c.m.moved = true;
  }
  std::memcpy(p.data.get(), b.centre.get(), b.bytes());
  reply_with(c.m, p.data, b.bytes(), c.out);
}

// The result of a round whose parts are complete. Null if the round has no values. Throws
// std::bad_alloc; then nothing has changed.
block hub::result_of(group& g, const begin& what) {
  if (what.what == collective_op::barrier || what.how == meeting::in_memory) return nullptr;
  const auto& b = g.buffers[what.buffer];
  if (what.what == collective_op::broadcast || what.what == collective_op::scatter)
    return g.members.at(what.argument).pending->data;
  if (what.what == collective_op::all_gather || what.what == collective_op::gather) {
    auto whole = make_block(b.bytes());
    for (const auto& [rank, m] : g.members) {
      const auto part = part_of(b.count, rank, g.size);
      if (part.count > 0)
        std::memcpy(whole.get() + part.first * bytes_of(b.type), m.pending->data.get(), part.count * bytes_of(b.type));
    }
    return whole;
  }
  std::vector<block> values;
  for (const auto& [rank, m] : g.members) values.push_back(m.pending->data);
  fold(b.type, what.what == collective_op::exchange ? reduction::mean : static_cast<reduction>(what.argument), values, b.count);
  return values[0];
}

void hub::finish_round(group& g, hub_effects& out) {
  begin what;
  for (auto& [rank, m] : g.members) {
    if (!m.pending || !is_round(g, m.pending->call.what) || !m.pending->complete()) return;
    what = m.pending->call;
  }
  if (g.members.size() != g.size) return;
  if (what.what == collective_op::exchange && what.how == meeting::with_values && g.how == averaging_method::easgd_sync)
    return finish_elastic(g, what, out);
  block result;
  try {
    result = result_of(g, what);
  } catch (const std::bad_alloc&) {
    return fail_round(g, code::too_large, "the daemon is out of memory", out);
  }
  const auto each = result ? bytes_of(g.buffers[what.buffer].type) : 1;
  for (auto& [rank, m] : g.members) {
    m.pending.reset();
    m.moved = true;
    const auto mine = result ? got(what, g.buffers[what.buffer].count, rank, g.size) : range{};
    if (mine.count > 0)
      reply_with(m, result, mine.count * each, out, mine.first * each);
    else
      reply(m, code::ok, {}, out);
  }
}

void hub::finish_elastic(group& g, const begin& what, hub_effects& out) {
  std::vector<block> values;
  for (const auto& [rank, m] : g.members) values.push_back(m.pending->data);
  auto& b = g.buffers[what.buffer];
  if (!b.centre) try {
      make_centre(b, values[0]);
    } catch (const std::bad_alloc&) {
      return fail_round(g, code::too_large, "the daemon is out of memory", out);
    }
  if (g.alpha != 0) pull_all(b.type, values, b.centre.get(), b.count, g.alpha);
  for (auto& [rank, m] : g.members) {
    m.pending.reset();
    m.moved = true;
    if (g.alpha != 0)
      reply_with(m, values[rank], b.bytes(), out);
    else
      reply(m, code::ok, {}, out);
  }
}

// Answers every member that has a part in the round with an error. Nothing else has changed.
void hub::fail_round(group& g, code why, const std::string& text, hub_effects& out) {
  for (auto& [rank, m] : g.members) {
    if (!m.pending || !is_round(g, m.pending->call.what)) continue;
    m.pending.reset();
    reply(m, why, text, out);
  }
}

}  // namespace troupe::exchange
