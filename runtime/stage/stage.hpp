// A stage hosts one layer (or a fused run of layers) of one worker and owns a pool of sub-solvers.
// A packet finds a free sub-solver on arrival and is bound to it by msg_id; its backward finds the
// bound sub-solver by the same msg_id, runs and frees it. A pipeline is nothing but the set of
// bindings that share a msg_id.
//
// Messages in:  forward (in-edge), backward (out-edge), credit (out-edge), layer_weights, start
//               (who sends it is new), user; collect, restore_state (carried state)
// Messages out: forward, backward, credit, gradient (to the worker), report (to the coordinator),
//               start (after a restart), user; state (carried)
//
// Invariants:
//   * at most `slots` packets are bound; at most slots x in-edges forwards are held: producers send
//     only with credit;
//   * a forward runs only when all its inputs are there and, for layers with parameters, the
//     weights that the job's weight rule wants (stage_weights.hpp); versions that no packet can
//     want any more are let go;
//   * a backward never waits for credit: its forward reserved it;
//   * a packet of a step whose weights have been overtaken (another worker has computed it too:
//     portions) flows on as a void packet: same messages, same credit, no maths, no gradient, and a
//     report that is empty;
//   * packets of layers that carry state run their forwards in the order of their lanes
//     (sequence_slots.hpp);
//   * forward, backward and credit may come twice: the second changes nothing;
//   * what a peer says is believed as far as it fits the plan: what comes of somebody else, along
//     an edge that the packet does not take, of another packet than the rest of it, or in another
//     shape or type, is dropped (stage_checks.cpp), and so are packets beyond credit;
//   * with `retains_for_replay`, what has been said of a packet is kept until nobody can need it,
//     and said again (attempt raised) to whoever has been restarted; a restarted stage makes again
//     what it is sent again (stage_again.cpp);
//   * memory of a packet is let go as soon as nothing that is still to come reads it: an output or
//     input after its last reader here and its last consumer, a gradient when it has been taken,
//     unless backward wants it (stage_memory.cpp); a layer with recompute = true keeps neither
//     outputs nor what it saved, and runs forward again, from the nearest inputs that were kept,
//     when backward comes to it;
//   * gradients of one tensor with several consumers are added in the consumers' order, so arrival
//     order changes nothing.
//
// An actor-based layer derives from `stage` and overrides begin_forward / begin_backward (and
// on_user): it may send messages of its own to its peers and call forward_done / backward_done when
// it has its result.
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
#include "runtime/stage/packet_horizon.hpp"
#include "runtime/stage/sequence_slots.hpp"
#include "runtime/stage/stage_maths.hpp"
#include "runtime/stage/stage_weights.hpp"

namespace troupe {

struct stage_config {
  std::uint32_t job = 0;
  role_id self = no_role;
  role_id worker = no_role;    // takes gradients, gives weights
  role_id coordinator{0};      // takes reports
  std::vector<role_id> peers;  // the same stage on every worker, by worker index (actor-based layers)
  std::shared_ptr<const model_graph> graph;
  std::shared_ptr<const job_plan> plan;
  std::uint32_t slots = 1;
  dtype type = dtype::f32;  // of activations; parameters and statistics: wide_of(it)
  std::uint64_t seed = 1;
  std::uint64_t first_step = 0;     // versions begin here
  std::int64_t eval_examples = 0;   // of a packet of an evaluation; 0: as many as in training
  bool retains_for_replay = false;  // roles around it, and it itself, may be restarted while packets are under way
  std::uint32_t incarnation = 0;
  bool await_carried =
      false;  // a stage whose layers carry state waits for what they begin with (restore_state); else it begins with zeros
};

class stage : public role {
 public:
  explicit stage(stage_config c);
  ~stage() override;
  void on(const envelope& e, time_point now, effects& out) override;
  role_status status() const override;
  std::optional<header> packet_of_task(std::uint64_t token) const override;
  // The most versions of one layer's weights that were here at once, those of packets under way
  // included.
  std::uint32_t max_versions() const { return weights_.most(); }
  // Packets of which something is kept for whoever may be restarted.
  std::size_t kept() const { return kept_.size(); }

 protected:
  using slot = stage_slot;

  virtual void begin_forward(slot& s, effects& out);
  virtual void begin_backward(slot& s, effects& out);
  virtual void on_user(const envelope& e, effects& out) { (void)e, (void)out; }
  // A task of the derived stage has finished: it was run with run_own(s, kind, ...).
  virtual void on_task(slot& s, std::uint32_t kind, effects& out) { (void)s, (void)kind, (void)out; }
  void run_own(slot& s, std::uint32_t kind, task_work work, task_cost cost, effects& out);
  // A task has finished whose packet had been given up meanwhile.
  virtual void on_lost(slot& s) { clear(s); }
  void clear(slot& s) {
    s.at = slot::stage_of::free;
    stage_maths::let_go_all(s);
  }

  // To be called once per begun forward / backward.
  void forward_done(slot& s, effects& out);
  void backward_done(slot& s, effects& out);

  // For tasks, which take it and their slots (slot::shared_from_this()), never the stage:
  // docs/ARCHITECTURE.md, "Tasks".
  const std::shared_ptr<const stage_maths>& maths_of_stage() const { return maths_; }

  slot* slot_of(msg_id id);
  slot& slot_at(std::uint32_t index) { return *slots_[index]; }
  std::uint32_t slot_count() const { return static_cast<std::uint32_t>(slots_.size()); }
  header reply(const slot& s, role_id to) const { return reply(s.h, to); }
  header reply(const header& of, role_id to) const;
  static bool training(const slot& s) { return stage_maths::training(s); }

  const stage_config& config() const { return config_; }
  const role_plan& self() const { return (*config_.plan)[config_.self]; }
  const graph_layer& hosted(std::size_t position) const { return maths_->hosted(position); }

 private:
  struct pending {
    header h;
    std::uint32_t valid = 0, first_example = 0;
    tensors inputs;  // by in-edge
    std::uint32_t missing = 0;
  };

  // With `retains_for_replay`: what has been said of a packet, by edge.
  struct kept_packet {
    header h;
    std::uint32_t valid = 0, first_example = 0;
    tensors forwards, backwards;
    bool done = false;  // it has left
  };

  void take_forward(const envelope& e, effects& out);
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
  static bool idle(const slot& s) {  // bound, and no task of it runs
    return s.at == slot::stage_of::sending || s.at == slot::stage_of::waiting || gathering(s);
  }
  void go_on_void(slot& s, effects& out);
  void bind(slot& s, pending&& p);
  void declare(slot& s);
  bool send_outputs(slot& s, effects& out);
  void release(slot& s, effects& out);
  bool is_past(const header& h) const;
  void add_slot();
  // stage_again.cpp
  kept_packet& kept_of(const slot& s);
  void learn(const envelope& e, effects& out);
  void forget(effects& out);
  void take_start(const header& h, effects& out);
  void begin_again(effects& out);
  void announce(effects& out);
  void say_again(role_id to, effects& out);
  void take_early(slot& s);
  void give_credit(const header& of, std::size_t edge, effects& out);
  stage_weights::kept_from kept_from() const {
    return config_.retains_for_replay ? stage_weights::kept_from(horizon_.needed_from()) : std::nullopt;
  }
  std::uint32_t backwards_of(const header& h) const;
  const part_layer* part_at(std::size_t position) const { return maths_->part_at(position); }
  int position_of(std::int32_t layer) const { return maths_->position_of(layer); }
  const plan_edge& in_edge(std::size_t port) const { return maths_->in_edge(port); }
  const plan_edge& out_edge(std::size_t port) const { return maths_->out_edge(port); }
  bool edge_used(const plan_edge& e, const header& h) const { return maths_->edge_used(e, h); }

  stage_config config_;
  std::shared_ptr<const stage_maths> maths_;
  std::vector<std::shared_ptr<slot>> slots_;  // shared with the tasks that run
  std::map<msg_id, pending> pending_;
  std::vector<edge_credit> credit_;  // by out-edge
  std::deque<msg_id>
      past_;  // without `retains_for_replay`: packets that have left, the latest: what comes of them once more is a duplicate
  stage_weights weights_;
  sequence_slots sequences_;
  packet_horizon horizon_;
  std::map<msg_id, kept_packet> kept_;
  std::map<msg_id, std::pair<header, tensors>> early_;  // gradients of packets that are not bound (yet), by out-edge
  std::uint32_t lives_ = 0;                             // restarts, its own and those that made it begin again
  bool grows_ = false;                                  // somebody here was restarted: more sub-solvers rather than waiting for one
};

}  // namespace troupe
