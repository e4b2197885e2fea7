// Wraps the parts of CAF 0.17 that differ in CAF 1.x: message types, sending, exits and the
// scheduler. All other code in actors/ uses these wrappers, so that a change of the CAF version is
// confined to this file. Sends are anonymous and asynchronous: Troupe never replies to
// `current_sender`, and a null sender saves two atomic operations.
#pragma once

#include <chrono>
#include <string>
#include <utility>

#include <caf/actor_clock.hpp>
#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/send.hpp>
#include <caf/system_messages.hpp>

// A message struct that actors of one process pass by pointer; it is never serialised.
#define TROUPE_LOCAL_MESSAGE(type) CAF_ALLOW_UNSAFE_MESSAGE_TYPE(type)

namespace troupe::compat {

using base_actor = caf::event_based_actor;

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

// Drops messages that the actor does not handle; CAF's default prints them.
inline void ignore_unknown(base_actor& self) { self.set_default_handler(caf::drop); }

// Configures CAF's scheduler: work sharing, the fastest policy for layer actors (measured), with
// `threads` threads.
inline void set_scheduler(caf::actor_system_config& c, std::size_t threads) {
  c.set("scheduler.policy", caf::atom("sharing"));
  c.set("scheduler.max-threads", threads);
}

}  // namespace troupe::compat
