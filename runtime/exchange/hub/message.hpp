// Messages between a process with its own training loop (the client) and the hub of a daemon.
// Plain values; wire.hpp has their encoding.
//
//   client -> hub   open_session, declare, begin, piece..., take_lock, free_lock, cancel, leave,
//                   share, filled
//   hub -> client   answer, piece..., shared_at
//
// A client makes one call at a time. Calls are numbered upwards from 1. Every call but `leave`,
// `cancel` and `filled` has one answer (`share`: a shared_at, or an answer with an error), followed
// by `answer.bytes` bytes of data in pieces. A `cancel` means that the caller's deadline has passed
// and that it no longer waits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <variant>

namespace troupe::exchange {

// Changes: 2: shared memory. 3: teams. 4: more types, reductions and rounds; ranks assigned by the
// hub. 5: not_allowed
inline constexpr std::uint32_t protocol = 5;
inline constexpr std::size_t max_name = 200;  // bytes of a session's, buffer's or lock's name
// Of the memory and of the buffer in which the ranks decide on a team (client/session_team.cpp). No
// other name may have an unprintable character, so a caller's never equals it.
inline constexpr const char* team_name = "\x01team";
inline constexpr std::size_t max_text = 2000;  // bytes of an answer's text
// Largest data of one message. A multiple of every element's size, and small enough for one chunk
// of the transport.
inline constexpr std::size_t piece_bytes = (std::size_t{1} << 20) - 4096;

// These values are part of troupe_exchange.h; library/troupe_exchange.cpp asserts that they agree
// (not_allowed has another number there).
enum class code : std::uint8_t { ok, bad_argument, mismatch, rank_taken, peer_lost, out_of_step, too_large, not_held, not_allowed };
enum class element : std::uint8_t { f32, f64, bf16, i32, i64 };
enum class averaging_method : std::uint8_t { average, easgd, easgd_sync, asgd };
enum class collective_op : std::uint8_t {
  exchange,
  all_reduce,
  broadcast,
  centre,
  barrier,
  reduce_scatter,
  all_gather,
  gather,
  scatter
};
enum class reduction : std::uint8_t { sum, mean, min, max, product };
enum class contents : std::uint8_t { empty, full };
// in_memory: a round whose values meet in shared memory (client/team.hpp). Ranks report that they
// have arrived and send no values.
enum class meeting : std::uint8_t { with_values, in_memory };

inline constexpr std::uint8_t codes = 9, elements = 5, averaging_methods = 4, collective_ops = 9, reductions = 5,
                              contents_kinds = 2, meetings = 2;
constexpr std::uint64_t bytes_of(element e) {
  constexpr std::uint64_t of[elements] = {4, 8, 2, 4, 8};
  return of[static_cast<std::uint8_t>(e)];
}
constexpr bool whole_numbers(element e) { return e == element::i32 || e == element::i64; }
// Averaging methods and shared arrays require these types.
constexpr bool lawful(element e) { return e == element::f32 || e == element::f64; }
inline constexpr std::uint32_t any_rank = 0xffffffff;  // in open_session: the hub assigns the lowest free rank

// Memory of a buffer's values: shared by all messages that send it, aligned for any element.
using block = std::shared_ptr<std::byte>;

// Bytes, and the owner that keeps them alive.
struct view {
  std::shared_ptr<const void> owner;
  const std::byte* data = nullptr;
  std::size_t size = 0;
};

struct open_session {
  std::uint32_t version = protocol;
  std::string session;
  std::uint32_t rank = 0, size = 0;
  averaging_method how = averaging_method::average;
  double alpha = 0;
};
// open_session is answered with the rank in `value`.
struct declare {  // answered with the buffer's number in `value`
  std::uint64_t call = 0;
  std::string name;
  element type = element::f32;
  std::uint64_t count = 0;
};
// Calls on a buffer, and the barrier. A caller with values to give sends them as pieces at once,
// without waiting for an answer.
struct begin {
  std::uint64_t call = 0;
  collective_op what = collective_op::barrier;
  std::uint32_t buffer = 0;
  // all_reduce, reduce_scatter: the reduction. broadcast, gather, scatter: the root's rank.
  // exchange under asgd: 1: the values are the worker's own; they become the centre if there is
  // none, otherwise the centre replaces them. 0: the values are the worker's change since it last
  // received the centre
  std::uint32_t argument = 0;
  meeting how = meeting::with_values;
};
struct piece {
  std::uint64_t call = 0, offset = 0;
  view data;
};
struct take_lock {
  std::uint64_t call = 0;
  std::string name;
};
struct free_lock {
  std::uint64_t call = 0;
  std::string name;
};
struct cancel {
  std::uint64_t call = 0;
};
struct leave {};
struct answer {
  std::uint64_t call = 0;
  exchange::code code = code::ok;
  std::string text;         // of the error
  std::uint32_t value = 0;  // open_session: the rank; declare: the buffer's number
  std::uint64_t bytes = 0;  // of data that follow
};

// Memory that processes on the daemon's machine share by name. The first member that asks fills it
// and reports that. The others are answered when it is full. If the first one gives up or dies, the
// next waiting member fills it.
struct share {
  std::uint64_t call = 0;
  std::string name;
  element type = element::f32;
  std::uint64_t count = 0;
};
struct shared_at {  // location of the memory; runtime/exchange/shared/shared_memory.hpp has its layout
  std::uint64_t call = 0, id = 0;
  contents now = contents::empty;             // empty: the receiver must fill it
  std::uint32_t process = 0, descriptor = 0;  // of the daemon
  std::uint64_t token = 0;                    // must equal the token in the memory's header
  std::string machine;
};
struct filled {
  std::uint64_t id = 0;
  contents now = contents::full;  // empty: given up
};

using message =
    std::variant<open_session, declare, begin, piece, take_lock, free_lock, cancel, leave, answer, share, shared_at, filled>;

}  // namespace troupe::exchange
