// The computation of a stage, and the tables that it needs from the plan: immutable, and shared by
// the stage and its tasks. A task uses this object and the data of its packet, never the stage
// itself, which may handle messages, be restarted or end while the task runs.
//
//   stage_layout.cpp   reads the plan: tensors from other roles, cuts of out-edges, gradient
//                      addends
//   stage_maths.cpp    forward and backward of a packet, layer by layer
//   stage_memory.cpp   when tensors are released, and recomputation (recompute = true)
//
// Threads: any; at most one at a time per packet.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/model/graph.hpp"
#include "runtime/model/maths_steps.hpp"
#include "runtime/plan/plan.hpp"
#include "runtime/role.hpp"
#include "runtime/stage/stage_slot.hpp"

namespace troupe {

// size: the members are tables read from the plan once; every function uses most of them
class stage_maths {
 public:
  stage_maths(std::shared_ptr<const model_graph> g, std::shared_ptr<const job_plan> p, role_id self, std::uint64_t seed,
              dtype type);

  // Forward and backward of a packet through all hosted layers. Called in tasks, like every
  // function below that takes a device.
  void run_forward(packet_work& w, device& d) const;
  void run_backward(packet_work& w, device& d) const;

  // The parts of run_forward and run_backward, for stages that insert steps of their own
  // (joint_stage, gather_stage). join_inputs comes first, hand_back (which stores the gradients of
  // the stage's inputs in packet_work::inputs) last. For layers computed as one, the first layer's
  // pass holds the state, and the last layer's pass the result.
  void join_inputs(packet_work& w, device& d) const;
  void gather(packet_work& w, std::size_t position) const;
  void step_forward(packet_work& w, const maths_step& step, device& d) const;
  void cut_outputs(packet_work& w, device& d) const;
  void unpack_arriving(packet_work& w, device& d) const;
  void fill_grad_out(packet_work& w, std::size_t position, device& d) const;
  void step_backward(packet_work& w, const maths_step& step, device& d) const;
  void hand_back(packet_work& w, device& d) const;
  context context_of(packet_work& w, std::size_t position, device& d) const;
  void keep(packet_work& w, const maths_step& step) const;  // saves the tensors of backward_needs(), except those recomputed later
  void prepare(packet_work& w, const maths_step& step, std::int64_t examples,
               device& d) const;  // creates the step's plan for inputs of the shapes of `in`
  void let_go_read(packet_work& w, const maths_step& step) const;
  void let_go_done(packet_work& w, const maths_step& step) const;
  static tensors of_all(const packet_work& w, const maths_step& step, tensors layer_pass::*which);
  // Releases the tensors; the lists keep their capacity for the next packet.
  static void forget(saved& s) { s.inputs.clear(), s.outputs.clear(), s.extra.clear(); }

  // Called by the stage. declare: sets the shape of every tensor of the pass, without memory (tasks
  // allocate it). leaving: the tensor to send along an out-edge; `sent`: the edges along which one
  // has been sent.
  void declare(packet_work& w) const;
  tensor leaving(packet_work& w, std::size_t edge, const std::vector<bool>& sent) const;
  void let_go_sent(packet_work& w) const;
  static void let_go_all(packet_work& w);  // the packet has left

  const role_plan& self() const { return (*plan_)[self_]; }
  // The layer at `position`, or the part of it that this stage computes.
  const graph_layer& hosted(std::size_t position) const {
    const auto* part = part_at(position);
    return part ? part->as : graph_->layers[self().layers[position]];
  }
  const part_layer* part_at(std::size_t position) const { return self().parts.empty() ? nullptr : self().parts[position].get(); }
  const std::vector<maths_step>& steps() const { return steps_; }
  int position_of(std::int32_t layer) const;
  const plan_edge& in_edge(std::size_t port) const { return plan_->edges[self().in_edges[port]]; }
  const plan_edge& out_edge(std::size_t port) const { return plan_->edges[self().out_edges[port]]; }
  // Returns true if the packet travels along the edge. An evaluation packet uses the edges that the
  // first training packet of its loader uses.
  bool edge_used(const plan_edge& e, const header& h) const;
  shape sized(const shape& s, std::int64_t examples) const;
  static bool training(const packet_work& w) { return w.h.phase == static_cast<std::uint8_t>(phase::train); }
  bool wants_backward() const { return wants_backward_; }
  bool reports(std::uint8_t ph) const { return reports_[ph]; }  // true if the stage hosts a loss or metric of the phase
  const task_cost& cost_forward() const { return forward_cost_; }
  const task_cost& cost_backward() const { return backward_cost_; }

 private:
  // A need: a tensor from another role, or a range of its features, that hosted layers read.
  struct need_of {
    tensor_ref what;
    feature_range features;
    std::vector<std::size_t> edges;  // in-edges that deliver it
    shape dims;                      // of a training packet
    bool sum = false;                // each edge delivers an addend of the whole
  };

  // One addend of a tensor's gradient, in the consumers' fixed order (ops/reader_sum.hpp): inputs
  // of a hosted layer, an out-edge, or several out-edges to one consumer that is split by feature
  // (each part returns the gradient of its features).
  struct contribution {
    bool hosted = true;
    std::size_t at = 0;               // position, or out-edge
    std::vector<std::size_t> ports;   // the hosted layer's inputs
    std::vector<std::size_t> pieces;  // out-edges
  };
  using contributions = std::vector<contribution>;
  // Last reads, by phase: after step k has run, no hosted layer reads the outputs and needs of
  // last_[phase][k] any more.
  struct readings {
    std::vector<std::pair<std::size_t, std::size_t>> outputs;  // position, output
    std::vector<std::size_t> needs;
    bool input_0 = false;  // one of them is the step's input 0
  };
  struct backward_wants {
    bool inputs, outputs;
  };

  // --- stage_layout.cpp
  void find_needs();
  void find_readers();
  void find_held();
  contributions contributions_of(tensor_ref t, feature_range features) const;
  // Returns true if the out-edge carries a part or a compressed form of the layer's output.
  bool remade(std::size_t e) const { return !cuts_[e].whole() || out_edge(e).wire != wire_format::as_is; }
  std::size_t index_of_step(const maths_step& step) const { return static_cast<std::size_t>(&step - steps_.data()); }
  const maths_step& step_at(int position) const { return steps_[step_of_[static_cast<std::size_t>(position)]]; }
  // The position whose output is input `i` of the layer at `position`; -1: the input is a need.
  int maker_of(std::size_t position, std::size_t i) const {
    return need_at_[position][i] >= 0 ? -1 : position_of(hosted(position).inputs[i].layer);
  }
  bool recomputes(std::size_t position) const { return hosted(position).recompute; }
  backward_wants wants_of(const maths_step& step) const { return wants_of_[index_of_step(step)]; }

  // --- stage_maths.cpp
  std::int64_t examples_of(const packet_work& w, const graph_layer& l) const;
  void add_inputs(packet_work& w, std::size_t need, device& d) const;
  tensor arrived(const packet_work& w, std::size_t need, std::size_t edge, device& d) const;
  tensor joined_gradient(packet_work& w, const std::vector<std::size_t>& edges, std::size_t position, std::size_t output,
                         device& d) const;
  tensor add_up(packet_work& w, const contributions& from, std::size_t position, std::size_t output, device& d) const;

  // --- stage_memory.cpp
  void take_in_place(packet_work& w, const maths_step& step) const;
  void restore(packet_work& w, const maths_step& step, device& d) const;
  void make_again(packet_work& w, const maths_step& step, device& d) const;

  std::shared_ptr<const model_graph> graph_;
  std::shared_ptr<const job_plan> plan_;
  role_id self_;
  std::uint64_t seed_;
  dtype type_;  // of activations; parameters and statistics have wide_of(type)
  std::vector<maths_step> steps_;
  std::vector<std::size_t> step_of_;                   // by position
  std::vector<std::vector<contributions>> out_grads_;  // by position, output
  std::vector<need_of> needs_;
  std::vector<contributions> in_grads_;             // by need
  std::vector<std::vector<std::int32_t>> need_at_;  // by position, input: index into needs_, or -1
  std::vector<feature_range> cuts_;                 // by out-edge: features of the local output; {0, 0}: all
  std::vector<readings> last_[2];
  std::vector<std::vector<bool>> leaves_[2];  // by phase, position, output: sent along an out-edge, in any form
  std::vector<std::vector<bool>> held_;       // by position, output: kept as an input of a hosted layer that is recomputed
  std::vector<bool> held_need_;               // by need
  std::vector<backward_wants> wants_of_;      // by step: backward_needs()
  bool wants_backward_ = false;
  bool reports_[2] = {false, false};
  task_cost forward_cost_, backward_cost_;
};

}  // namespace troupe
