// What roles say to each other: a 64-byte header and one of the bodies in dataflow.hpp, param.hpp,
// control.hpp. Bodies are plain structs; tensors in them are handles. Order is kept per (source,
// destination) and no further.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <variant>

#include "runtime/messages/control.hpp"
#include "runtime/messages/dataflow.hpp"
#include "runtime/messages/ids.hpp"
#include "runtime/messages/param.hpp"

namespace troupe {

struct header {
  std::uint32_t job = 0;
  role_id src = no_role;
  role_id dst = no_role;
  std::uint32_t incarnation = 0;  // of the sender; messages of an older one are dropped and counted
  msg_id id{};                    // one packet's path; a re-send keeps it and raises `attempt`
  std::uint64_t step = 0;         // training step, or index of the evaluation round
  std::uint64_t version = 0;      // of the weights in use
  std::uint32_t needed_from = 0;  // forward, backward, credit, start: no packet of a step before it will be asked for again
  std::uint32_t packet = 0;       // index of the packet in its step, and how many there are
  std::uint32_t packets = 1;
  std::uint16_t port = 0;  // which edge of the destination (its in-edges for forward, out-edges for backward)
  std::uint8_t attempt = 0;
  std::uint8_t phase = 0;   // troupe::phase
  std::uint16_t flags = 0;  // see below
  std::uint32_t trace = 0;
};
static_assert(sizeof(header) == 64);

// header.flags: the low byte are marks, the high byte the era of the mode in use (it grows with
// every live switch), so that messages of the mode before are known when they come late.
constexpr std::uint16_t flag_void = 1;   // a packet that nobody needs any more: it flows on for the accounts, without maths
constexpr std::uint16_t flag_join = 2;   // the answer to a `fetch` that joins
constexpr std::uint16_t flag_reset = 4;  // a training packet whose lanes begin anew: nothing is carried over from the step before
constexpr std::uint16_t flag_marks = 0xff;

using message = std::variant<
    // dataflow
    forward, backward, credit,
    // parameters
    gradient, push, weights, layer_weights, ready, fetch,
    // control
    start, grant, set_value, evaluate, report, collect, state, restore_state, halt, command, user,
    // changing the mode, counting
    flush, adopt, observe, observation, norm_partials,
    // loading
    work_unit, resume_at, want_examples, examples, examples_seed,
    // what is left when nodes are lost
    quiesce, inventory,
    // from the host itself; gradients that are not finite. The order is part of traces and of
    // frames
    finished, nonfinite_report, peer_down>;

struct envelope {
  header h;
  message body;
};

// For hosts: what has been sent is immutable; how many bytes its tensors have.
void freeze(envelope& e);
std::size_t tensor_bytes(const message& m);

// For std::visit(overloaded{...}, e.body).
template <class... F>
struct overloaded : F... {
  using F::operator()...;
};
template <class... F>
overloaded(F...) -> overloaded<F...>;

const char* name_of(const message& m);  // "forward", "push", ...

}  // namespace troupe
