// A message between roles: a 64-byte header and a body, one of the structs of dataflow.hpp,
// param.hpp and control.hpp. Tensors in bodies are handles. Messages of one source to one
// destination arrive in order; there is no other guarantee of order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <variant>

#include "ops/one_of.hpp"
#include "runtime/messages/command.hpp"
#include "runtime/messages/control.hpp"
#include "runtime/messages/dataflow.hpp"
#include "runtime/messages/ids.hpp"
#include "runtime/messages/param.hpp"

namespace troupe {

// Every field has one meaning. Numbers that only some messages have (blocks, rounds, masses) are in
// their bodies. Messages of types that do not use a field have its default value
// (header_fields.hpp; the table is in docs/wire.md).
struct header {  // size: the 64 bytes in front of every message
  // In every message.
  std::uint32_t job = 0;  // number of the job
  role_id src = no_role;
  role_id dst = no_role;
  std::uint32_t incarnation = 0;  // generation of the sender's plan; messages of an earlier plan are dropped and counted
  // Of the packet that the message is about (forward, backward, credit, gradient, report, user, and
  // requests for examples); a repetition of a message keeps it and raises `attempt`.
  msg_id id{};
  std::uint64_t step = 0;  // number of the training step if `phase` is train, of the evaluation round if it is test
  // Version of the weights: the number of updates in them since the job's beginning, or, of the
  // weights that a tester evaluates, the number of its evaluation round.
  std::uint64_t version = 0;
  std::uint32_t packet = 0;   // index of the packet in its step
  std::uint32_t packets = 1;  // number of packets in the step
  std::uint16_t port = 0;     // index of the destination's edge: an in-edge for forward, an out-edge for backward and credit
  std::uint8_t attempt = 0;   // number of earlier sendings of this message; in every message
  std::uint8_t phase = 0;     // troupe::phase of the packet: 0 train, 1 test
  std::uint8_t flags = 0;     // marks of the packet: flag_void, flag_reset
  // The mode that the message belongs to: the number of live switches before it, modulo 256. Late
  // messages of an earlier mode are recognised by it. In messages of sync roles and replicas, and
  // in flush, grant and adopt.
  std::uint8_t mode_epoch = 0;
  // For hosts; roles ignore it. In actors: number of the message among those of its source, for
  // traces. In the simulator: further copies that will arrive.
  std::uint32_t trace = 0;
};
static_assert(sizeof(header) == 64);

constexpr std::uint8_t flag_void = 1;   // a packet that is no longer needed; it passes the stages without maths, for bookkeeping
constexpr std::uint8_t flag_reset = 2;  // a training packet whose sequences begin anew, without the state of the last step

// The index of a body is part of the wire format (wire_version) and of recorded traces.
struct message_kinds {
  using variant = std::variant<
      // dataflow
      forward, backward, credit,
      // parameters
      gradient, push, weights, layer_weights, ready, fetch,
      // control
      start, grant, set_value, evaluate, report, collect, state, restore_state, halt, command, user,
      // mode switch, statistics, clipping
      flush, adopt, observe, observation, norm_partials,
      // loading
      work_unit, want_examples, examples, examples_seed,
      // recovery after node failures
      quiesce, inventory,
      // from the host; non-finite gradients. The order is part of traces and frames
      finished, nonfinite_report, peer_down,
      // the speed of workers; histograms of values
      step_time, want_histograms, histogram>;
};
using message = one_of<message_kinds>;
extern template class one_of<message_kinds>;

struct envelope {
  header h;
  message body;
};

// For hosts. Marks all tensors of the message as immutable, before it is sent.
void freeze(envelope& e);
// Returns the bytes of all tensors of the message.
std::size_t tensor_bytes(const message& m);

// For std::visit(overloaded{...}, e.body).
template <class... F>
struct overloaded : F... {
  using F::operator()...;
};
template <class... F>
overloaded(F...) -> overloaded<F...>;

const char* name_of_body(std::size_t index);  // of troupe::message, e.g. "forward"
inline const char* name_of(const message& m) { return name_of_body(m.index()); }

}  // namespace troupe
