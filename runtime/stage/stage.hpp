// A stage hosts one layer (or a fused run of layers) of one worker and owns a pool of sub-solvers.
// On arrival a packet is bound to a free sub-solver by its msg_id; its backward finds the
// sub-solver by the same msg_id, runs and frees it.
//
// Messages in:  forward (in-edge), backward (out-edge), credit (out-edge), layer_weights, user;
//               collect, restore_state (carried state)
// Messages out: forward, backward, credit, gradient (to the worker), report (to the coordinator),
//               user; state (carried)
//
// Invariants:
//   * at most `slots` packets are bound; at most slots x in-edges forwards are held: producers send
//     only with credit;
//   * a forward runs only when all its inputs have arrived and, for layers with parameters, the
//     weights that the job's weight rule requires (stage_weights.hpp); versions that no packet can
//     require any more are released;
//   * a backward never waits for credit: its forward reserved it;
//   * a packet whose step other workers have finished (copies of a work unit) passes as a void
//     packet: same messages, same credit, no maths, no gradient, an empty report;
//   * packets of layers that carry state run their forwards in the order of their sequence slots
//     (sequence_slots.hpp);
//   * a second copy of a forward, backward or credit has no effect;
//   * messages that do not fit the plan are dropped (stage_checks.cpp): from a role that is not the
//     edge's peer, along an edge that the packet does not use, with a header that differs from the
//     packet's other inputs, with another shape or type, or beyond credit;
//   * memory of a packet is released after its last use: an output or input after its last local
//     reader and its last consumer, a gradient when it has been consumed, unless backward needs it
//     (stage_memory.cpp); a layer with recompute = true keeps neither outputs nor saved tensors,
//     and backward first runs its forward again from the nearest inputs that were kept;
//   * gradients of one tensor with several consumers are added in the consumers' order, so the
//     result does not depend on the order of arrival.
//
// An actor-based layer derives from `stage` and overrides begin_forward / begin_backward (and
// on_user). It may send messages to its peers, and calls forward_done / backward_done when it has
// its result.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/messages/edge_credit.hpp"
#include "runtime/model/graph.hpp"
#include "runtime/plan/plan.hpp"
#include "runtime/role.hpp"
#include "runtime/stage/sequence_slots.hpp"
#include "runtime/stage/stage_layout.hpp"
#include "runtime/stage/stage_maths.hpp"
#include "runtime/stage/stage_weights.hpp"

namespace troupe {

struct stage_config {
  std::uint32_t job = 0;
  role_id self = no_role;
  role_id worker = no_role;    // receives gradients, sends weights
  role_id coordinator{0};      // receives reports
  std::vector<role_id> peers;  // the same stage on every worker, by worker index; only for actor-based and joint layers
  std::shared_ptr<const model_graph> graph;
  std::shared_ptr<const job_plan> plan;
  std::uint32_t slots = 1;
  dtype type = dtype::f32;  // of activations; parameters and statistics have wide_of(type)
  std::uint64_t seed = 1;
  std::uint64_t first_step = 0;    // the first version of weights
  std::int64_t eval_examples = 0;  // per evaluation packet; 0: as in training
  bool await_carried = false;      // carried state: wait for the initial state (restore_state); false: begin with zeros
};

class stage : public role {
 public:
  explicit stage(stage_config c);
  ~stage() override;
  void on(const envelope& e, time_point now, effects& out) override;
  role_status status() const override;
  std::optional<header> packet_of_task(std::uint64_t token) const override;
  // The largest number of versions of one layer's weights held at once, including those that
  // packets in flight hold.
  std::uint32_t max_versions() const { return weights_.most(); }

 protected:
  using slot = stage_slot;

  virtual void begin_forward(slot& s, effects& out);
  virtual void begin_backward(slot& s, effects& out);
  virtual void on_user(const envelope& e, effects& out) { (void)e, (void)out; }
  // A task that the derived stage started with run_own(s, kind, ...) has finished.
  virtual void on_task(slot& s, std::uint32_t kind, effects& out) { (void)s, (void)kind, (void)out; }
  // Runs task(packet_work&, task_context&) and lends it the packet's data (s.work) until then. The
  // task captures maths_of_stage() and values, never the stage: see docs/ARCHITECTURE.md, "Tasks".
  template <class Task>
  void run_own(slot& s, std::uint32_t kind, Task task, task_cost cost, effects& out) {
    run(s, kind + kind_own, std::move(task), cost, out);
  }
  void clear(slot& s);

  // The derived stage calls these once per forward / backward that it has begun.
  void forward_done(slot& s, effects& out);
  void backward_done(slot& s, effects& out);

  const std::shared_ptr<const stage_maths>& maths_of_stage() const { return maths_; }

  slot* slot_of(msg_id id);
  slot& slot_at(std::uint32_t index) { return *slots_[index]; }
  std::uint32_t slot_count() const { return static_cast<std::uint32_t>(slots_.size()); }
  header reply(const slot& s, role_id to) const { return reply(s.h, to); }
  header reply(const header& of, role_id to) const;
  // The header of a forward, backward or credit; `port` is the receiver's edge.
  header along(const header& of, role_id to, std::uint16_t port) const;
  static bool training(const slot& s) { return s.h.phase == static_cast<std::uint8_t>(phase::train); }

  const stage_config& config() const { return config_; }
  const role_plan& self() const { return (*config_.plan)[config_.self]; }
  const stage_layout& layout() const { return *layout_; }

 private:
  static constexpr std::uint32_t kind_forward = 0, kind_backward = 1, kind_own = 2;  // low half of a task's token
  template <class Task>
  void run(slot& s, std::uint32_t kind, Task task, task_cost cost, effects& out) {
    out.run([task = std::move(task), work = s.work.lend()](task_context& c) mutable { task(*work, c); }, cost,
            token_of(s.index, kind), s.index);
  }
  static std::uint64_t token_of(std::uint32_t slot, std::uint32_t kind) { return (static_cast<std::uint64_t>(slot) << 32) | kind; }

  struct pending {
    header h;
    std::uint32_t valid = 0, first_example = 0;
    tensors inputs;  // by in-edge
    std::uint32_t missing = 0;
  };

  void take_forward(const envelope& e);
  void take_backward(const envelope& e);
  void take_weights(const envelope& e);
  // --- stage_checks.cpp
  std::optional<drop_reason> fault_of(const envelope& e) const;
  bool acceptable(const header& h, const forward& f) const;
  bool acceptable(const header& h, const backward& b) const;
  bool acceptable(const layer_weights& w) const;
  std::int64_t examples_of(const header& h) const;
  bool beyond_credit(std::size_t port) const;
  shape dims_along(const plan_edge& e, std::int64_t examples) const;
  void take_collect(const envelope& e, effects& out);
  void take_finished(const finished& f, effects& out);
  void pump(effects& out);
  bool can_run(const pending& p) const;
  void enter_backward(slot& s, effects& out);
  bool overtaken(const header& h) const;
  static bool gathering(const slot& s) { return s.at == slot::stage_of::gather_forward || s.at == slot::stage_of::gather_backward; }
  void go_on_void(slot& s, effects& out);
  void bind(slot& s, pending&& p);
  void declare(slot& s);
  bool send_outputs(slot& s, effects& out);
  void release(slot& s, effects& out);
  bool is_past(msg_id id) const;
  void give_credit(const header& of, std::size_t edge, effects& out);
  std::uint32_t backwards_of(const header& h) const;

  stage_config config_;
  std::shared_ptr<const stage_layout> layout_;
  std::shared_ptr<const stage_maths> maths_;
  std::vector<std::unique_ptr<slot>> slots_;
  std::map<msg_id, pending> pending_;
  std::vector<edge_credit> credit_;  // by out-edge
  std::deque<msg_id> past_;          // the latest packets that have left, to recognise duplicates
  stage_weights weights_;
  sequence_slots sequences_;
};

}  // namespace troupe
