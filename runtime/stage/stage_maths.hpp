// The computation of a stage, for one packet at a time: immutable, and shared by the stage and its
// tasks. A task uses this object and the data of its packet, never the stage itself, which may
// handle messages or end while the task runs.
//
//   stage_layout.hpp   what is read from the plan: needs, cuts of out-edges, addends of gradients
//   stage_maths.cpp    forward and backward of a packet, layer by layer
//   stage_memory.cpp   when tensors are released, and recomputation (recompute = true)
//
// Threads: any; at most one at a time per packet.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "runtime/stage/stage_layout.hpp"
#include "runtime/stage/stage_slot.hpp"

namespace troupe {

class stage_maths {
 public:
  stage_maths(std::shared_ptr<const stage_layout> layout, std::uint64_t seed, dtype type)
      : layout_(std::move(layout)), seed_(seed), type_(type) {}

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
  void report_scalar(packet_work& w, std::size_t position, device& d) const;  // output 0 of a loss or metric
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

  const stage_layout& layout() const { return *layout_; }

 private:
  // --- stage_maths.cpp
  std::int64_t examples_of(const packet_work& w, const graph_layer& l) const;
  void weigh_scalar(packet_work& w, const graph_layer& l, const tensors& in, context& c) const;
  void add_inputs(packet_work& w, std::size_t need, device& d) const;
  tensor arrived(const packet_work& w, std::size_t need, std::size_t edge, device& d) const;
  tensor joined_gradient(packet_work& w, const std::vector<std::size_t>& edges, std::size_t position, std::size_t output,
                         device& d) const;
  tensor add_up(packet_work& w, const stage_layout::contributions& from, std::size_t position, std::size_t output, device& d) const;

  // --- stage_memory.cpp
  void take_in_place(packet_work& w, const maths_step& step) const;
  void restore(packet_work& w, const maths_step& step, device& d) const;
  void make_again(packet_work& w, const maths_step& step, device& d) const;

  std::shared_ptr<const stage_layout> layout_;
  std::uint64_t seed_;
  dtype type_;  // of activations; parameters and statistics have wide_of(type)
};

}  // namespace troupe
