// What a stage computes, and what it reads of its plan for that: immutable, and shared by the stage
// and its tasks. A task of a slot takes this and the slot, and nothing of the stage itself: the
// stage goes on, is restarted or ends while it runs.
//
//   stage_layout.cpp   which tensors come from elsewhere, how out-edges cut what goes, and who adds to a gradient, read once
//   stage_maths.cpp    forward and backward of a packet, layer by layer
//   stage_memory.cpp   when tensors are let go of, and what is made again (recompute)
//
// Threads: any; each slot by one at a time.
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

// size: its members are tables read from the plan once; every function reads most of them
class stage_maths {
 public:
  using slot = stage_slot;
  stage_maths(std::shared_ptr<const model_graph> g, std::shared_ptr<const job_plan> p, role_id self, std::uint64_t seed,
              dtype type);

  // A packet's forward and backward: all hosted layers. For tasks, like all that follows with a
  // device.
  void run_forward(slot& s, device& d) const;
  void run_backward(slot& s, device& d) const;

  // Their parts, for layers that put something between them: inputs in place, gradients of the
  // outputs in place, and (last) the gradients of the stage's inputs where the stage finds them.
  // What layers computed as one hold of the packet is with the first of them, but for the result,
  // which is the last one's.
  void join_inputs(slot& s, device& d) const;
  void gather(slot& s, std::size_t position) const;
  void step_forward(slot& s, const maths_step& step, device& d) const;
  void cut_outputs(slot& s, device& d) const;
  void unpack_arriving(slot& s, device& d) const;
  void fill_grad_out(slot& s, std::size_t position, device& d) const;
  void step_backward(slot& s, const maths_step& step, device& d) const;
  void hand_back(slot& s, device& d) const;
  context context_of(slot& s, std::size_t position, device& d) const;
  void keep(slot& s, const maths_step& step) const;  // what backward_needs() asks for, but what will be made again
  void prepare(slot& s, const maths_step& step, std::int64_t examples,
               device& d) const;  // its plan, for inputs like s.passes[..].in
  void let_go_read(slot& s, const maths_step& step) const;
  void let_go_done(slot& s, const maths_step& step) const;
  static tensors of_all(const slot& s, const maths_step& step, tensors layer_pass::*which);
  // The lists keep their own memory for the next packet.
  static void forget(saved& s) { s.inputs.clear(), s.outputs.clear(), s.extra.clear(); }

  // For the stage: every tensor of the pass by shape only (the maths, where there is any, gives
  // them memory), and what leaves.
  void declare(slot& s) const;
  tensor leaving(slot& s, std::size_t edge) const;
  void let_go_sent(slot& s) const;
  static void let_go_all(slot& s);  // the packet has left

  const role_plan& self() const { return (*plan_)[self_]; }
  // The layer, or that part of it which is here.
  const graph_layer& hosted(std::size_t position) const {
    const auto* part = part_at(position);
    return part ? part->as : graph_->layers[self().layers[position]];
  }
  const part_layer* part_at(std::size_t position) const { return self().parts.empty() ? nullptr : self().parts[position].get(); }
  const std::vector<maths_step>& steps() const { return steps_; }
  int position_of(std::int32_t layer) const;
  const plan_edge& in_edge(std::size_t port) const { return plan_->edges[self().in_edges[port]]; }
  const plan_edge& out_edge(std::size_t port) const { return plan_->edges[self().out_edges[port]]; }
  // Packets of an evaluation take the way that its loader's first packet takes in training.
  bool edge_used(const plan_edge& e, const header& h) const;
  shape sized(const shape& s, std::int64_t examples) const;
  static bool training(const slot& s) { return s.h.phase == static_cast<std::uint8_t>(phase::train); }
  bool wants_backward() const { return wants_backward_; }
  bool reports(std::uint8_t ph) const { return reports_[ph]; }  // does it host a loss or a metric?
  const task_cost& cost_forward() const { return forward_cost_; }
  const task_cost& cost_backward() const { return backward_cost_; }

 private:
  // A tensor from elsewhere, or the features of it that hosted layers read.
  struct need_of {
    tensor_ref what;
    feature_range features;
    std::vector<std::size_t> edges;  // that bring it
    shape dims;                      // of a training packet
    bool sum = false;                // each edge brings an addend of all of it
  };

  // Who adds to the gradient of a tensor, in the consumers' fixed order (ops/reader_sum.hpp): a
  // hosted layer's inputs, an out-edge, or several that together are one consumer's (it is split by
  // feature, and each part has its features of the gradient).
  struct contribution {
    bool hosted = true;
    std::size_t at = 0;               // position, or out-edge
    std::vector<std::size_t> ports;   // the hosted layer's inputs
    std::vector<std::size_t> pieces;  // out-edges
  };
  using contributions = std::vector<contribution>;
  // Who reads what, by phase: after step k has run nobody here reads the outputs and needs of
  // last_[phase][k] any more.
  struct readings {
    std::vector<std::pair<std::size_t, std::size_t>> outputs;  // position, output
    std::vector<std::size_t> needs;
    bool input_0 = false;  // one of them is what the step has as its input 0
  };
  struct backward_wants {
    bool inputs, outputs;
  };

  // --- stage_layout.cpp
  void find_needs();
  void find_readers();
  void find_held();
  contributions contributions_of(tensor_ref t, feature_range features) const;
  // Does anything else than the layer's whole output leave along an out-edge?
  bool remade(std::size_t e) const { return !cuts_[e].whole() || out_edge(e).wire != wire_format::as_is; }
  std::size_t index_of_step(const maths_step& step) const { return static_cast<std::size_t>(&step - steps_.data()); }
  const maths_step& step_at(int position) const { return steps_[step_of_[static_cast<std::size_t>(position)]]; }
  // The position whose output is input `i` of the layer at `position`; -1: it comes from elsewhere.
  int maker_of(std::size_t position, std::size_t i) const {
    return need_at_[position][i] >= 0 ? -1 : position_of(hosted(position).inputs[i].layer);
  }
  bool recomputes(std::size_t position) const { return hosted(position).recompute; }
  backward_wants wants_of(const maths_step& step) const { return wants_of_[index_of_step(step)]; }

  // --- stage_maths.cpp
  std::int64_t examples_of(const slot& s, const graph_layer& l) const;
  void add_inputs(slot& s, std::size_t need, device& d) const;
  tensor arrived(const slot& s, std::size_t need, std::size_t edge, device& d) const;
  tensor joined_gradient(slot& s, const std::vector<std::size_t>& edges, std::size_t position, std::size_t output, device& d) const;
  tensor add_up(slot& s, const contributions& from, std::size_t position, std::size_t output, device& d) const;

  // --- stage_memory.cpp
  void take_in_place(slot& s, const maths_step& step) const;
  void restore(slot& s, const maths_step& step, device& d) const;
  void make_again(slot& s, const maths_step& step, device& d) const;

  std::shared_ptr<const model_graph> graph_;
  std::shared_ptr<const job_plan> plan_;
  role_id self_;
  std::uint64_t seed_;
  dtype type_;  // of activations; parameters and statistics: wide_of(it)
  std::vector<maths_step> steps_;
  std::vector<std::size_t> step_of_;                   // by position
  std::vector<std::vector<contributions>> out_grads_;  // by position, output
  std::vector<need_of> needs_;
  std::vector<contributions> in_grads_;             // by need
  std::vector<std::vector<std::int32_t>> need_at_;  // by position, input: index into needs_, or -1
  std::vector<feature_range> cuts_;                 // by out-edge: of the output that is here; {0, 0}: all
  std::vector<readings> last_[2];
  std::vector<std::vector<bool>> leaves_[2];  // by phase, position, output: along an out-edge, as it is or remade
  std::vector<std::vector<bool>> held_;       // by position, output: what a layer of ours that is made again will read
  std::vector<bool> held_need_;               // by need
  std::vector<backward_wants> wants_of_;      // by step: backward_needs()
  bool wants_backward_ = false;
  bool reports_[2] = {false, false};
  task_cost forward_cost_, backward_cost_;
};

}  // namespace troupe
