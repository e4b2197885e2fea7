// Rounds of a session in shared memory (team.hpp): decides whether the session has a team, and runs
// a round.
//
// All ranks decide the same way: they sum through the hub how many of them can use the memory. A
// team that is over is not created again: its former members report that they cannot use it, and so
// does a rank that finds its memory used.
#include <utility>

#include "runtime/exchange/client/session.hpp"
#include "runtime/exchange/hub/parts.hpp"
#include "runtime/exchange/troupe_exchange.h"

namespace troupe::exchange {

bool session::of_team(const begin& b, const buffer& of) const {
  const bool small = of.count * bytes_of(of.type) < team::worth;
  if (small || me_.size < 2 || me_.size > team::max_ranks) return false;
  if (b.what == collective_op::exchange) return me_.how == averaging_method::average && lawful(of.type);
  // Calls that the daemon would reject are sent to the daemon, which reports the error.
  const bool mean = b.argument == static_cast<std::uint32_t>(reduction::mean);
  if (reduces(b.what)) return b.argument < reductions && !(mean && whole_numbers(of.type));
  return has_root(b.what) ? b.argument < me_.size : b.what == collective_op::all_gather;
}

// Sets `mine` if this rank can use the memory. After an error the result is unknown and the next
// call asks again.
outcome session::enter_team(deadline until, bool& mine) {
  mine = false;
  if (team_) return {};  // a former team that is over
  std::unique_ptr<shared_array> memory;
  auto r = map_shared(team_name, element::f64, team::doubles(me_.size), nullptr, until, memory);
  if (r.code == TROUPE_EXCHANGE_NOT_LOCAL || r.code == TROUPE_EXCHANGE_TOO_LARGE || r.code == TROUPE_EXCHANGE_MISMATCH) return {};
  if (r.code != 0) return r;
  team_ = std::make_unique<team>(std::move(memory), me_.rank, me_.size);
  mine = team_->fresh();
  return {};
}

outcome session::decide(deadline until) {
  bool mine = false;
  if (auto r = enter_team(until, mine); r.code != 0) return r;
  std::int32_t number = 0;
  if (auto r = declare_buffer(team_name, element::f32, 1, until, number); r.code != 0) return r;
  buffer of;
  {
    const std::lock_guard guard(lock_);
    of = buffers_[static_cast<std::size_t>(number)];
  }
  float all = mine ? 1 : 0;
  auto r = call_hub({0, collective_op::all_reduce, static_cast<std::uint32_t>(number), static_cast<std::uint32_t>(reduction::sum),
                     meeting::with_values},
                    of, &all, until);
  if (r.code != 0) {
    if (mine) team_.reset();  // the next call asks again
    return r;
  }
  how_ = all == static_cast<float>(me_.size) ? how_rounds::team : how_rounds::hub;
  if (how_ == how_rounds::team) team_->begin();
  return {};
}

outcome session::call_team(begin b, const buffer& of, void* mine, deadline until) {
  const visit inside(*this);
  const std::unique_lock round(rounds_, until);
  if (!round) return {TROUPE_EXCHANGE_TIMEOUT, "the deadline passed while another thread's call was in progress"};
  if (how_ == how_rounds::team && team_->over()) {
    team_->give_up();
    how_ = how_rounds::unknown;
  }
  if (how_ == how_rounds::unknown)
    if (auto r = decide(until); r.code != 0) return r;
  if (how_ == how_rounds::hub) return call_hub(b, of, mine, until);
  b.how = meeting::in_memory;
  if (b.what == collective_op::exchange)
    b.what = collective_op::all_reduce, b.argument = static_cast<std::uint32_t>(reduction::mean);
  const auto kind = static_cast<std::uint32_t>(b.what) << 16 | (b.argument + 1);  // an argument is a rank below 64 or a reduction
  switch (team_->gather(std::uint64_t{b.buffer} << 32 | kind, until)) {
    case team::met::here: break;
    case team::met::differ:
      return {TROUPE_EXCHANGE_MISMATCH, "the ranks make different calls: another operation, buffer, reduction or root"};
    case team::met::elsewhere:
      if (auto r = call_hub(b, of, nullptr, until); r.code != 0) return r;
      team_->met_at_hub();
  }
  switch (team_->run({b, of.type, mine, of.count}, until, [this] {
    const std::lock_guard guard(lock_);
    return calls_.closing;
  })) {
    case team::ended::well: return {};
    case team::ended::lost:
      return {TROUPE_EXCHANGE_PEER_LOST,
              "a rank has left or its process has ended during a round: the values may be partly updated"};
    case team::ended::late:
      return {TROUPE_EXCHANGE_OUT_OF_STEP, "the deadline passed during a round: the values may be partly updated"};
    case team::ended::called: return closed();
  }
  return {};
}

}  // namespace troupe::exchange
