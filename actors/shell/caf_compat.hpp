// Wraps the parts of CAF 0.17 that differ in CAF 1.x: type ids, atoms, inspection, sending, exits,
// down handlers and error texts. All other code in actors/ uses these wrappers, so that a change of
// the CAF version is confined to this file. Sends are anonymous and asynchronous: Troupe never
// replies to `current_sender`, and a null sender saves two atomic operations.
#pragma once

#include <chrono>
#include <string>
#include <utility>

#include <caf/actor_clock.hpp>
#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/meta/type_name.hpp>
#include <caf/send.hpp>
#include <caf/system_messages.hpp>

// A message struct that actors of one process pass by pointer; it is never serialised.
#define TROUPE_LOCAL_MESSAGE(type) CAF_ALLOW_UNSAFE_MESSAGE_TYPE(type)

// Types and atoms of messages between processes (control plane). Atom texts have at most ten
// characters.
#define TROUPE_BEGIN_TYPES(block, first) CAF_BEGIN_TYPE_ID_BLOCK(block, first)
#define TROUPE_ADD_TYPE(block, type) CAF_ADD_TYPE_ID(block, (type))
#define TROUPE_ADD_ATOM(block, space, name, text) CAF_ADD_ATOM(block, space, name, text)
#define TROUPE_END_TYPES(block) CAF_END_TYPE_ID_BLOCK(block)

namespace troupe::compat {

using base_actor = caf::event_based_actor;

// Body of `inspect(f, x)` for a message struct.
template <class Inspector, class... Fields>
auto inspect_fields(Inspector& f, const char* name, Fields&... fields) {
  return f(caf::meta::type_name(name), fields...);
}

// Sends `m` to `to`. Costs one allocation: CAF's mailbox element holds the message itself. `where`
// is the sending actor's context(), or null outside actors.
template <class Message>
void post(const caf::actor& to, Message&& m, caf::execution_unit* where = nullptr) {
  if (to) caf::actor_cast<caf::abstract_actor*>(to)->eq_impl(caf::make_message_id(), nullptr, where, std::forward<Message>(m));
}

template <class Message>
void post_after(const caf::actor& to, std::chrono::nanoseconds after, Message&& m) {
  if (to) caf::delayed_anon_send(to, after, std::forward<Message>(m));
}

// Asks an actor to exit; the request overtakes the messages in its mailbox. No effect on an actor
// that has ended.
inline void ask_to_exit(const caf::actor& who) {
  if (!who) return;
  auto* p = caf::actor_cast<caf::abstract_actor*>(who);
  p->eq_impl(caf::make_message_id(caf::message_priority::high), nullptr, nullptr,
             caf::exit_msg{p->address(), caf::exit_reason::user_shutdown});
}

// `on_down(const caf::actor_addr&, const caf::error&)` is called when an actor that `self` monitors
// ends.
template <class F>
void set_down(base_actor& self, F on_down) {
  self.set_down_handler([on_down](caf::down_msg& m) { on_down(m.source, m.reason); });
}

inline std::string render(const caf::actor_system& system, const caf::error& e) { return system.render(e); }

// Drops messages that the actor does not handle; CAF's default prints them.
inline void ignore_unknown(base_actor& self) { self.set_default_handler(caf::drop); }

// Configures CAF's scheduler: work sharing, the fastest policy for layer actors (measured), with
// `threads` threads.
inline void set_scheduler(caf::actor_system_config& c, std::size_t threads) {
  c.set("scheduler.policy", caf::atom("sharing"));
  c.set("scheduler.max-threads", threads);
}

}  // namespace troupe::compat
