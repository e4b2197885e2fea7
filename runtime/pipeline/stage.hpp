// A stage hosts one layer (or a fused run of layers) of one worker and owns a pool of sub-solvers. A packet finds a free sub-solver on
// arrival and is bound to it by msg_id; its backward finds the bound sub-solver by the same msg_id, runs and frees it. A pipeline is
// nothing but the set of bindings that share a msg_id.
//
// Messages in:  forward (in-edge), backward (out-edge), credit (out-edge), layer_weights, start (who sends it is new), user;
//               collect, restore_state (carried state)
// Messages out: forward, backward, credit, gradient (to the worker), report (to the coordinator), start (after a restart), user;
//               state (carried)
//
// Invariants:
//   * at most `slots` packets are bound; at most slots x in-edges forwards are held: producers send only with credit;
//   * a forward runs only when all its inputs are there and, for layers with parameters, the weights that the job's weight rule wants
//     (graph/warm_up.hpp): drain and stash exactly one version, latest the newest, if it is new enough;
//   * a layer with delay d has at most d + 1 versions (stash); versions that no packet can want any more are let go;
//   * a backward never waits for credit: its forward reserved it;
//   * a packet of a step whose weights have been overtaken (another worker has computed it too: portions) flows on as a void packet:
//     same messages, same credit, no maths, no gradient, and a report that is empty;
//   * with layers that carry state (carried.hpp), packet k of step t + 1 runs its forward after packet k of step t; in an evaluation
//     with lanes packet p + packets after packet p. Training and tests have states of their own;
//   * forward, backward and credit may come twice: the second changes nothing;
//   * with `keeps`, what has been said of a packet is kept until nobody can need it, and said again (attempt raised) to whoever has been
//     restarted; a restarted stage makes again what it is sent again (stage_again.cpp);
//   * memory of a packet is let go as soon as nothing that is still to come reads it: an output or input after its last reader here and its
//     last consumer, a gradient when it has been taken, unless backward wants it (stage_memory.cpp); a layer with recompute = true keeps
//     neither outputs nor what it saved, and runs forward again, from the nearest inputs that were kept, when backward comes to it;
//   * gradients of one tensor with several consumers are added in the consumers' order, so arrival order changes nothing.
//
// An actor-based layer derives from `stage` and overrides begin_forward / begin_backward (and on_user): it may send messages of its
// own to its peers and call forward_done / backward_done when it has its result.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ops/layer.hpp"
#include "runtime/graph/graph.hpp"
#include "runtime/graph/maths_steps.hpp"
#include "runtime/graph/plan.hpp"
#include "runtime/pipeline/edge_credit.hpp"
#include "runtime/role.hpp"

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
  std::uint64_t first_step = 0;  // versions begin here
  bool keeps = false;            // roles around it, and it itself, may be restarted while packets are under way
  std::uint32_t incarnation = 0;
  // Of a stage whose layers carry state: it begins with `carried` (by packet and position; missing: zeros), or waits for restore_state.
  std::map<std::uint32_t, std::vector<tensors>> carried;
  bool await_carried = false;
};

class stage : public role {
 public:
  explicit stage(stage_config c);
  ~stage() override;
  void on(const envelope& e, time_point now, effects& out) override;
  role_status status() const override;
  // The most versions of one layer's weights that were here at once, those of packets under way included.
  std::uint32_t most_versions() const { return most_versions_; }
  // Packets of which something is kept for whoever may be restarted.
  std::size_t kept() const { return kept_.size(); }

 protected:
  // What one hosted layer holds of one packet.
  struct layer_pass {
    tensors in, out, params;
    tensors grad_out, grad_in, grad_params;
    std::uint32_t gradient_of = 1;  // packets that grad_params is the sum of; 0: another slot has this packet's
    tensors stats;
    tensors carried_in, carried_out;
    saved kept;
    std::unique_ptr<plan> plans[2];  // by phase; made by the first job that needs it
    std::int64_t planned_examples[2] = {0, 0};
    bool again = false;         // recompute: forward has run again for this backward
    std::uint64_t version = 0;  // of `params`
    std::uint64_t lag = 0;      // stash: steps that it lacked; latest: versions that came between forward and backward
  };
  // A sub-solver.
  struct slot {
    // gather_..: waits for the other packets of its step (gather_stage). lost: begin_again() has given up its packet, and its job still
    // runs.
    enum class stage_of { free, gather_forward, forward, sending, waiting, gather_backward, backward, lost } at = stage_of::free;
    std::uint32_t index = 0;
    header h;  // of the packet's forward
    std::uint32_t valid = 0, first_example = 0;
    std::vector<layer_pass> passes;  // by position in role_plan::layers
    bool is_void = false;            // nobody needs it any more
    bool keeps_lanes = false;        // state is carried on from this packet
    std::int64_t examples = 0;
    tensors inputs;             // by in-edge
    tensors wholes;             // by need: put together from the inputs
    tensors outgoing;           // by out-edge, where something else than the whole output as it is leaves: a part, or fewer bytes
    tensors arriving;           // gradients, by out-edge
    std::uint32_t missing = 0;  // gradients still to come
    std::vector<bool> sent;     // by out-edge
    std::vector<std::pair<std::string, double>> scalars;
  };

  virtual void begin_forward(slot& s, effects& out);
  virtual void begin_backward(slot& s, effects& out);
  virtual void on_user(const envelope& e, effects& out) { (void)e, (void)out; }
  // A job of the derived stage has finished: it was run with run_own(s, kind, ...).
  virtual void on_job(slot& s, std::uint32_t kind, effects& out) { (void)s, (void)kind, (void)out; }
  void run_own(slot& s, std::uint32_t kind, job_work work, job_cost cost, effects& out);
  // A job has finished whose packet had been given up meanwhile.
  virtual void on_lost(slot& s) { clear(s); }
  void clear(slot& s);

  // To be called once per begun forward / backward.
  void forward_done(slot& s, effects& out);
  void backward_done(slot& s, effects& out);

  // The maths of hosted layers that are computed as one; for jobs only (they touch nothing but the slot). What they hold of the packet is
  // with the first of them, but for the result, which is the last one's.
  void step_forward(slot& s, const maths_step& step, device& d) const;
  void step_backward(slot& s, const maths_step& step, device& d) const;
  // Their parts, for layers that put something between them: inputs in place, gradients of the outputs in place, and (last) the
  // gradients of the stage's inputs where backward_done finds them.
  void gather(slot& s, std::size_t position) const;
  static tensors of_all(const slot& s, const maths_step& step, tensors layer_pass::*which);
  void fill_grad_out(slot& s, std::size_t position, device& d) const;
  void hand_back(slot& s, device& d) const;
  void join_inputs(slot& s, device& d) const;
  void cut_outputs(slot& s, device& d) const;
  context context_of(slot& s, std::size_t position, device& d) const;
  void keep(slot& s, const maths_step& step) const;  // what backward_needs() asks for, but what will be made again
  std::int64_t examples_of(const slot& s, const graph_layer& l) const;
  void prepare(slot& s, const maths_step& step, std::int64_t examples,
               device& d) const;  // its plan, for inputs like s.passes[..].in
  void let_go_read(slot& s, const maths_step& step) const;
  void let_go_done(slot& s, const maths_step& step) const;
  // The lists keep their own memory for the next packet.
  static void forget(saved& s) { s.inputs.clear(), s.outputs.clear(), s.extra.clear(); }
  void run_forward(slot& s, device& d) const;
  void run_backward(slot& s, device& d) const;
  void unpack_arriving(slot& s, device& d) const;
  const job_cost& cost_forward() const { return forward_cost_; }
  const job_cost& cost_backward() const { return backward_cost_; }

  slot* slot_of(msg_id id);
  slot& slot_at(std::uint32_t index) { return *slots_[index]; }
  std::uint32_t slot_count() const { return static_cast<std::uint32_t>(slots_.size()); }
  header reply(const slot& s, role_id to) const { return reply(s.h, to); }
  header reply(const header& of, role_id to) const;
  bool training(const slot& s) const { return s.h.phase == static_cast<std::uint8_t>(phase::train); }

  const stage_config& config() const { return config_; }
  const role_plan& self() const { return (*config_.plan)[config_.self]; }
  // The layer, or that part of it which is here.
  const graph_layer& hosted(std::size_t position) const {
    const auto* part = part_at(position);
    return part ? part->as : config_.graph->layers[self().layers[position]];
  }
  const std::vector<maths_step>& steps() const { return steps_; }
  const part_layer* part_at(std::size_t position) const { return self().parts.empty() ? nullptr : self().parts[position].get(); }

 private:
  struct pending {
    header h;
    std::uint32_t valid = 0, first_example = 0;
    tensors inputs;  // by in-edge
    std::uint32_t missing = 0;
  };

  // With `keeps`: what has been said of a packet, by edge.
  struct kept_packet {
    header h;
    std::uint32_t valid = 0, first_example = 0;
    tensors forwards, backwards;
    bool done = false;  // it has left
  };

  void take_forward(const envelope& e, effects& out);
  void take_backward(const envelope& e);
  void take_weights(const envelope& e);
  // --- stage_lanes.cpp
  void begin_lanes();
  bool lanes_ready(const header& h) const;
  void enter_lanes(slot& s);
  void leave_lanes(slot& s);
  void take_collect(const envelope& e, effects& out);
  void take_carried(const restore_state& s);
  bool in_lanes(const header& h) const {
    return carries_ && (h.phase == static_cast<std::uint8_t>(phase::train) || config_.plan->eval_lanes);
  }
  void take_finished(const finished& f, effects& out);
  void pump(effects& out);
  bool weights_ready(const header& h) const;
  std::uint64_t wanted_version(const header& h, std::size_t position) const;
  const std::pair<const std::uint64_t, tensors>* weights_for(const header& h, std::size_t position) const;
  void start_backward(slot& s, effects& out);
  void count_versions();
  bool overtaken(const header& h) const;
  static bool gathering(const slot& s) { return s.at == slot::stage_of::gather_forward || s.at == slot::stage_of::gather_backward; }
  static bool idle(const slot& s) {  // bound, and no job of it runs
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
  bool over(const header& h) const;
  void take_start(const header& h, effects& out);
  void begin_again(effects& out);
  void announce(effects& out);
  void say_again(role_id to, effects& out);
  void take_early(slot& s);
  void give_credit(const header& of, std::size_t edge, effects& out);
  std::uint64_t oldest_version(std::size_t position) const;
  bool edge_used(const plan_edge& e, const header& h) const;
  void find_needs();  // stage_layout.cpp, like contributions_of()
  std::uint32_t backwards_of(const header& h) const;
  void add_inputs(slot& s, std::size_t need, device& d) const;
  // --- stage_memory.cpp
  void find_readers();
  void find_held();
  void take_in_place(slot& s, const maths_step& step) const;
  tensor leaving(slot& s, std::size_t edge) const;
  void let_go_sent(slot& s) const;
  void restore(slot& s, const maths_step& step, device& d) const;
  void make_again(slot& s, const maths_step& step, device& d) const;
  std::size_t index_of_step(const maths_step& step) const { return static_cast<std::size_t>(&step - steps_.data()); }
  const maths_step& step_at(int position) const { return steps_[step_of_[static_cast<std::size_t>(position)]]; }
  // The position whose output is input `i` of the layer at `position`; -1: it comes from elsewhere.
  int maker_of(std::size_t position, std::size_t i) const {
    return need_at_[position][i] >= 0 ? -1 : position_of(hosted(position).inputs[i].layer);
  }
  bool recomputes(std::size_t position) const { return hosted(position).recompute; }
  tensor joined_gradient(slot& s, const std::vector<std::size_t>& edges, std::size_t position, std::size_t output, device& d) const;
  tensor arrived(const slot& s, std::size_t need, std::size_t edge, device& d) const;
  // Does anything else than the layer's whole output leave along an out-edge?
  bool remade(std::size_t e) const { return !cuts_[e].whole() || out_edge(e).wire != wire_format::as_is; }
  const plan_edge& in_edge(std::size_t port) const { return config_.plan->edges[self().in_edges[port]]; }
  const plan_edge& out_edge(std::size_t port) const { return config_.plan->edges[self().out_edges[port]]; }
  int position_of(std::int32_t layer) const;
  shape sized(const shape& s, std::int64_t examples) const;

  // A tensor from elsewhere, or the features of it that hosted layers read.
  struct need_of {
    tensor_ref what;
    feature_range features;
    std::vector<std::size_t> edges;  // that bring it
    shape dims;                      // of a training packet
    bool sum = false;                // each edge brings an addend of all of it
  };

  // Who adds to the gradient of a tensor, in the consumers' fixed order (reader_sum.hpp): a hosted layer's inputs, an out-edge, or several
  // that together are one consumer's (it is split by feature, and each part has its features of the gradient).
  struct contribution {
    bool hosted = true;
    std::size_t at = 0;               // position, or out-edge
    std::vector<std::size_t> ports;   // the hosted layer's inputs
    std::vector<std::size_t> pieces;  // out-edges
  };
  using contributions = std::vector<contribution>;
  contributions contributions_of(tensor_ref t, feature_range features) const;
  tensor add_up(slot& s, const contributions& from, std::size_t position, std::size_t output, device& d) const;

  stage_config config_;
  std::vector<maths_step> steps_;
  std::vector<std::unique_ptr<slot>> slots_;
  std::map<msg_id, pending> pending_;
  std::vector<edge_credit> credit_;  // by out-edge
  std::deque<msg_id> past_;  // without `keeps`: packets that have left, the latest: what comes of them once more is a duplicate
  std::vector<std::map<std::uint64_t, tensors>> params_;  // by position, version
  std::vector<std::uint64_t> version_;
  std::vector<bool> has_weights_;
  std::map<msg_id, kept_packet> kept_;
  std::map<msg_id, std::pair<header, tensors>> early_;  // gradients of packets that are not bound (yet), by out-edge
  std::uint64_t floor_ = 0;                             // nobody needs packets of earlier steps
  std::uint64_t trained_ = 0, round_ = 0;  // steps and rounds of evaluation that packets have come of: those before are over
  std::uint32_t lives_ = 0;                // restarts, its own and those that made it begin again
  bool grows_ = false;                     // somebody here was restarted: more sub-solvers rather than waiting for one
  std::uint32_t most_versions_ = 0;
  std::uint64_t dropped_ = 0;
  std::vector<std::vector<contributions>> out_grads_;  // by position, output
  std::vector<need_of> needs_;
  std::vector<contributions> in_grads_;             // by need
  std::vector<std::vector<std::int32_t>> need_at_;  // by position, input: index into needs_, or -1
  std::vector<feature_range> cuts_;                 // by out-edge: of the output that is here; {0, 0}: all
  // Who reads what, by phase: after step k has run nobody here reads the outputs and needs of last_[phase][k] any more.
  struct readings {
    std::vector<std::pair<std::size_t, std::size_t>> outputs;  // position, output
    std::vector<std::size_t> needs;
    bool input_0 = false;  // one of them is what the step has as its input 0
  };
  std::vector<readings> last_[2];
  std::vector<std::vector<bool>> leaves_[2];  // by phase, position, output: along an out-edge, as it is or remade
  std::vector<std::vector<bool>> held_;       // by position, output: what a layer of ours that is made again will read
  std::vector<bool> held_need_;               // by need
  struct backward_wants {
    bool inputs, outputs;
  };
  std::vector<backward_wants> wants_of_;  // by step: backward_needs()
  backward_wants wants_of(const maths_step& step) const { return wants_of_[index_of_step(step)]; }
  std::vector<std::size_t> step_of_;  // by position
  // What the packets of one place in the order have carried: up to step `next`, or up to packet `next` of evaluation `round`.
  struct lane {
    std::uint64_t next = 0, round = 0;
    std::vector<tensors> state;  // by position
  };
  bool carries_ = false;
  std::set<std::uint32_t> restored_;        // pieces that have come back
  std::map<std::uint32_t, lane> lanes_[2];  // by phase, packet (modulo the plan's packets)
  bool wants_backward_ = false;
  bool reports_[2] = {false, false};  // by phase: does it host a loss or a metric?
  job_cost forward_cost_, backward_cost_;
};

}  // namespace troupe
