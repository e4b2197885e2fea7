// Hub of the exchange: groups of ranks (processes with their own training loops), their buffers,
// centre variables, reductions, barriers and locks. A state machine: one message in, effects out;
// no thread, clock, socket or file. A daemon hosts it; tests call it directly.
//
// A group has a session name, a size and an averaging method. It begins with its first member and
// ends, centres included, with its last one.
//
//   immediate    exchange under `easgd` and `asgd`, `centre`, locks: answered without waiting for
//                other ranks (a lock waits for its holder)
//   shares       memory of the daemon's machine. The hub knows its name, its size and whether it is
//                full; its bytes belong to the host and the members (runtime/exchange/shared). It
//                ends with the group
//   rounds       all_reduce, reduce_scatter, all_gather, gather, scatter, broadcast, barrier,
//                exchange under `average` and `easgd_sync`: complete when every rank has given its
//                part (parts.hpp). A group has one round at a time, since a member makes one call
//                at a time
//
// Invariants
//  - A round changes nothing until every part has arrived; then every member is answered. The
//    result depends on ranks and values, never on the order of arrival (arithmetic.hpp).
//  - A member that leaves or is lost releases its locks and its part of the round. The others are
//    notified at once ("peer_lost"), and so is a rank that begins a round before that rank has
//    joined again.
//  - A cancel withdraws an incomplete part. If the call was already done, the cancel leaves the
//    member out of step: its further steps, and rounds of its group, fail with "out_of_step" until
//    it has opened a new session. Nothing is ever applied twice.
//  - A share is handed to the second and later members only when it is full. A share that no member
//    fills or waits for is removed.
//  - Memory: a buffer is declared before it is used, and the declaration reserves all memory that
//    its use can take (hub_limits::bytes). A share, a lock and a client also reserve memory. A
//    member has at most one part in the hub and one answer in flight.
//  - A client that violates the protocol is dropped; the other members notice only that it is gone.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/exchange/hub/message.hpp"

namespace troupe::exchange {

struct hub_limits {
  std::size_t clients = 1024;
  std::uint32_t group_size = 256;
  std::size_t buffers = 4096, locks = 256;       // per group
  std::size_t shares = 256;                      // of all groups: each takes a file descriptor
  std::uint64_t bytes = std::uint64_t{4} << 30;  // that all clients, buffers, shares and locks of all groups may reserve
  // Bytes that the host needs for a client's connection; bytes of a buffer or a lock without its
  // values.
  std::uint64_t client_bytes = 0, entry_bytes = 0;
};

struct send_effect {
  std::string to;
  message what;
};
struct drop_effect {  // ends the connection
  std::string who, why;
};
struct note_effect {  // for the operator's log
  std::string line;
};
// Create the memory unless it exists, write its location to `what`, and send that. If it cannot be
// created, send an answer with code too_large and pass `filled{id, empty}` to the hub in the
// client's name.
struct share_effect {
  std::string to;
  shared_at what;
  element type = element::f32;
  std::uint64_t count = 0;
};
struct unshare_effect {  // this memory will not be handed out any more
  std::uint64_t id = 0;
};
using hub_effects = std::vector<std::variant<send_effect, drop_effect, note_effect, share_effect, unshare_effect>>;

class hub {
 public:
  explicit hub(hub_limits limits = {}) : limits_(limits) {}

  // `client` is the name of the connection, unique while that exists.
  void on(const std::string& client, const message& m, hub_effects& out);
  void on_gone(const std::string& client, const std::string& why, hub_effects& out);

  // Bytes that a slow but correct reader may leave unread. The host checks this before a client's
  // next call.
  std::uint64_t max_unread(const std::string& client) const;

  std::size_t clients() const { return clients_.size(); }
  std::size_t groups() const { return groups_.size(); }
  // Bytes reserved, and the bytes of them that centres and shares have allocated. may_reserve()
  // sets the limit of later reservations.
  std::uint64_t reserved() const { return reserved_; }
  std::uint64_t held() const { return held_; }
  void may_reserve(std::uint64_t bytes) { limits_.bytes = bytes; }
  std::size_t shares() const { return shares_; }

 private:
  struct buffer {
    std::string name;
    element type;
    std::uint64_t count;
    std::uint32_t declared_by;
    block centre;  // null until the first exchange
    std::uint64_t bytes() const { return count * bytes_of(type); }
  };
  struct part {  // a call that has begun and has no answer yet
    begin call;
    block data;  // null if the caller gives none
    std::uint64_t expected = 0, filled = 0;
    bool complete() const { return filled == expected; }
  };
  struct member {
    std::string client;
    std::uint32_t rank = 0;
    std::uint64_t last_call = 0;
    std::optional<part> pending;
    std::string waits_for, granted;  // locks: that last_call waits for, that it was granted
    std::uint64_t waits_for_share = 0;
    bool moved = false;       // last_call has changed state, and the caller may not know that yet
    std::string out_of_step;  // the reason; empty: in step
  };
  struct lock {
    std::uint32_t holder = 0;
    std::deque<std::uint32_t> waiting;
  };
  struct filler {
    std::uint32_t rank = 0;
    std::uint64_t call = 0;
  };
  struct memory {  // a share: full, or being filled
    std::uint64_t id = 0;
    element type;
    std::uint64_t count;
    std::uint32_t shared_by;
    std::optional<filler> by;  // empty: it is full
    std::deque<std::uint32_t> waiting;
    std::uint64_t bytes() const { return count * bytes_of(type); }
  };
  using memories = std::map<std::string, memory>;
  struct group {
    std::string name;
    std::uint32_t size = 0;
    averaging_method how = averaging_method::average;
    double alpha = 0;
    std::map<std::uint32_t, member> members;
    std::map<std::uint32_t, std::string> gone;  // ranks that have left or were lost, and how
    std::vector<buffer> buffers;
    std::map<std::string, lock> locks;
    memories shares;
    std::uint64_t reserved = 0, largest = 0, shared = 0;  // bytes; `reserved` includes `shared`
  };
  struct seat {
    std::string group;
    std::uint32_t rank;
  };
  // The group, the member and the effects of the message that is handled.
  struct context {
    group& g;
    member& m;
    hub_effects& out;
  };

  void join(const std::string& client, const open_session& o, hub_effects& out);
  std::optional<answer> objection(const open_session& o) const;
  void handle(context c, const declare& d);
  void handle(context c, const begin& b);
  void handle(context c, const piece& p);
  void handle(context c, const take_lock& t);
  void handle(context c, const free_lock& f);
  void handle(context c, const cancel& x);
  void handle(context c, const share& s);
  void handle(context c, const filled& f);
  void drop(const std::string& client, const std::string& why, hub_effects& out);
  void forget(const std::string& client, const std::string& how, hub_effects& out);
  bool next_call(context c, std::uint64_t call);
  bool room_for(std::uint64_t bytes) const { return reserved_ <= limits_.bytes && bytes <= limits_.bytes - reserved_; }
  void reserve(group& g, std::uint64_t bytes);
  void give_up(group& g, std::uint64_t bytes);
  void make_centre(buffer& b, const block& values);  // throws std::bad_alloc

  static bool is_round(const group& g, collective_op v);
  static expected<void> check_call(const group& g, const begin& b);
  std::optional<answer> objection(const group& g, const member& m, const begin& b) const;
  void step_alone(context c);
  void step_by_asgd(context c, buffer& b, const part& p);
  void finish_round(group& g, hub_effects& out);
  void finish_elastic(group& g, const begin& what, hub_effects& out);
  static block result_of(group& g, const begin& what);
  void fail_round(group& g, code why, const std::string& text, hub_effects& out);
  static std::string call_text(const group& g, const begin& b);

  static void reply(const member& m, code c, std::string text, hub_effects& out);
  static void reply_with(member& m, const block& data, std::uint64_t bytes, hub_effects& out, std::uint64_t from = 0);
  std::optional<answer> objection(const group& g, const member& m, const share& s) const;
  static void hand(const member& m, const memory& what, contents now, hub_effects& out);
  void pass_on(group& g, memories::iterator at, hub_effects& out);
  void stop_sharing(group& g, const member& m, hub_effects& out);
  void release(group& g, const std::string& name, hub_effects& out);

  hub_limits limits_;
  std::map<std::string, seat> clients_;
  std::map<std::string, group> groups_;
  std::uint64_t reserved_ = 0, held_ = 0;
  std::size_t shares_ = 0;
  std::uint64_t share_ids_ = 0;
};

}  // namespace troupe::exchange
