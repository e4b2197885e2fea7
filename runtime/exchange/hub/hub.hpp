// Where processes with training loops of their own meet: groups of ranks, their buffers, centre
// variables, reductions, barriers and locks. A value: a message in, effects out; no thread, clock,
// socket or file. A daemon hosts it, tests call it.
//
// A group is a session name, its size and its law. It begins with its first member and ends, centre
// and all, with its last one.
//
//   own steps    exchange under `easgd` and `asgd`, `centre`, locks: answered without waiting for other ranks (a lock: for its holder)
//   shares       memory of the daemon's machine, of which the hub knows the names, the sizes and whether it is full; its bytes are
//                the host's and the members' (runtime/exchange/shared). It goes with the group
//   rounds       all_reduce, reduce_scatter, all_gather, gather, scatter, broadcast, barrier, exchange under `average` and `easgd_sync`:
//                complete when every rank has given its part (parts.hpp); a group has one round at a time, since a member makes one call at a time
//
// Invariants
//  - A round changes nothing until every part is there; then every member is answered. What is
//    computed depends on ranks and values, never on the order of arrival (arithmetic.hpp).
//  - A member that goes takes its locks and its part of the round with it: the others are told at
//    once ("peer_lost"), and so is whoever begins a round before that rank is back.
//  - A cancel takes an incomplete part back. One that comes after its call was done leaves the
//    member behind the others: its further steps, and rounds of its group, fail with "out_of_step"
//    until it has opened anew. Nothing is ever applied twice.
//  - A share is given to the second and later members only when it is full. One that nobody fills
//    and nobody waits for is forgotten.
//  - Memory: a buffer is declared before it is used, and a declaration reserves all that its use
//    can take (hub_limits::bytes), as do a share, a lock and a client. A member has at most one
//    part here and one answer on its way.
//  - A client that breaks the protocol is dropped; nobody else notices more than its going.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "runtime/exchange/hub/message.hpp"

namespace troupe::exchange {

struct hub_limits {
  std::size_t clients = 1024;
  std::uint32_t group_size = 256;
  std::size_t buffers = 4096, locks = 256;       // of one group
  std::size_t shares = 256;                      // of all groups: each is a descriptor
  std::uint64_t bytes = std::uint64_t{4} << 30;  // reserved by all clients, buffers, shares and locks of all groups
  // Bytes that the host needs for a client's connection; bytes of a buffer or a lock without its
  // values.
  std::uint64_t client_bytes = 0, entry_bytes = 0;
};

struct send_effect {
  std::string to;
  message what;
};
struct drop_effect {  // end the connection
  std::string who, why;
};
struct note_effect {  // for the operator's log
  std::string line;
};
// Make the memory unless it is there, say in `what` where, and send it. If it cannot be made: send
// an answer with code too_large, and tell the hub `filled{id, empty}` in the client's name.
struct share_effect {
  std::string to;
  shared_at what;
  element type = element::f32;
  std::uint64_t count = 0;
};
struct unshare_effect {  // nobody will be given this memory any more
  std::uint64_t id = 0;
};
using hub_effects = std::vector<std::variant<send_effect, drop_effect, note_effect, share_effect, unshare_effect>>;

class hub {
 public:
  explicit hub(hub_limits limits = {}) : limits_(limits) {}

  // `client` is the connection's name, unique while it lasts.
  void on(const std::string& client, const message& m, hub_effects& out);
  void on_gone(const std::string& client, const std::string& why, hub_effects& out);

  // What a reader that is slow but honest may have unread, in bytes. For the host, before a
  // client's next call.
  std::uint64_t max_unread(const std::string& client) const;

  std::size_t clients() const { return clients_.size(); }
  std::size_t groups() const { return groups_.size(); }
  // Bytes reserved, and the part of them that centres and shares have allocated. may_reserve() sets
  // a new limit for later reservations.
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
    block data;  // null when the caller gives none
    std::uint64_t expected = 0, filled = 0;
    bool complete() const { return filled == expected; }
  };
  struct member {
    std::string client;
    std::uint32_t rank = 0;
    std::uint64_t last_call = 0;
    std::optional<part> pending;
    std::string waits_for, granted;  // a lock, by last_call
    std::uint64_t waits_for_share = 0;
    bool moved = false;       // last_call is done and has changed what the caller has yet to hear of
    std::string out_of_step;  // why
  };
  struct lock {
    std::uint32_t holder = 0;
    std::deque<std::uint32_t> waiting;
  };
  struct filler {
    std::uint32_t rank = 0;
    std::uint64_t call = 0;
  };
  struct memory {  // a share: full, or somebody fills it
    std::uint64_t id = 0;
    element type;
    std::uint64_t count;
    std::uint32_t shared_by;
    std::optional<filler> by;  // none: it is full
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
    std::map<std::uint32_t, std::string> gone;  // ranks that were here
    std::vector<buffer> buffers;
    std::map<std::string, lock> locks;
    memories shares;
    std::uint64_t reserved = 0, largest = 0, shared = 0;  // bytes; `reserved` counts what is shared too
  };
  struct seat {
    std::string group;
    std::uint32_t rank;
  };
  // One incoming message's surroundings.
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
  static std::string objection_to_call(const group& g, const begin& b);
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
