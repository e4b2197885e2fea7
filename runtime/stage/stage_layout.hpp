// The tables that a stage reads from its plan once: the layers that it hosts and the steps that
// compute them, its edges, the tensors that it needs from other roles, the addends of every
// gradient, and the last reader of every tensor. Layers are numbered by position in
// role_plan::layers, edges by position in role_plan::in_edges and out_edges, steps by position in
// steps().
//
// Immutable, and shared by the stage and its tasks. Threads: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "runtime/model/graph.hpp"
#include "runtime/model/maths_steps.hpp"
#include "runtime/plan/plan.hpp"
#include "runtime/role.hpp"

namespace troupe {

class stage_layout {
 public:
  stage_layout(std::shared_ptr<const model_graph> g, std::shared_ptr<const job_plan> p, role_id self);

  const model_graph& graph() const { return *graph_; }
  const job_plan& plan() const { return *plan_; }
  const role_plan& self() const { return (*plan_)[self_]; }

  // --- layers

  // The layer at `position`, or the part of it that this stage computes.
  const graph_layer& hosted(std::size_t position) const {
    const auto* part = part_at(position);
    return part ? part->as : graph_->layers[self().layers[position]];
  }
  const part_layer* part_at(std::size_t position) const { return self().parts.empty() ? nullptr : self().parts[position].get(); }
  int position_of(std::int32_t layer) const;  // -1: not hosted
  bool recomputes(std::size_t position) const { return hosted(position).recompute; }
  // The position whose output is input `i` of the layer at `position`; -1: the input is a need.
  int maker_of(std::size_t position, std::size_t i) const {
    return need_at(position, i) >= 0 ? -1 : position_of(hosted(position).inputs[i].layer);
  }
  shape sized(const shape& s, std::int64_t examples) const;  // the shape for a packet with that number of examples
  bool wants_backward() const { return wants_backward_; }
  bool reports(std::uint8_t ph) const { return phases_[ph].reports; }  // true if the stage hosts a loss or metric of the phase

  // --- steps

  struct backward_wants {
    bool inputs, outputs;
  };
  const std::vector<maths_step>& steps() const { return steps_; }
  const maths_step& step_at(int position) const { return steps_[step_of_[static_cast<std::size_t>(position)]]; }
  backward_wants wants_of(const maths_step& step) const { return wants_of_[index_of(step)]; }
  const task_cost& cost_forward() const { return forward_cost_; }
  const task_cost& cost_backward() const { return backward_cost_; }

  // --- edges

  const plan_edge& in_edge(std::size_t port) const { return plan_->edges[self().in_edges[port]]; }
  const plan_edge& out_edge(std::size_t port) const { return plan_->edges[self().out_edges[port]]; }
  // Returns true if the packet travels along the edge. An evaluation packet uses the edges that the
  // first training packet of its loader uses.
  bool edge_used(const plan_edge& e, const header& h) const;
  // The features of the local output that an out-edge carries; {0, 0}: all.
  feature_range cut_at(std::size_t out_edge) const { return cuts_[out_edge]; }
  // Returns true if the out-edge carries a part or a compressed form of the layer's output.
  bool remade(std::size_t e) const { return !cuts_[e].whole() || out_edge(e).wire != wire_format::as_is; }

  // --- needs and gradients

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
  // A need: a tensor from another role, or a range of its features, that hosted layers read.
  struct need_of {
    tensor_ref what;
    feature_range features;
    std::vector<std::size_t> edges;  // in-edges that deliver it
    shape dims;                      // of a training packet
    bool sum = false;                // each edge delivers an addend of the whole
    contributions gradient = {};
  };
  const std::vector<need_of>& needs() const { return needs_; }
  // Index into needs() of an input of the layer at `position`; -1: a hosted layer computes it.
  std::int32_t need_at(std::size_t position, std::size_t input) const { return need_at_[position][input]; }
  const contributions& gradient_at(std::size_t position, std::size_t output) const { return out_grads_[position][output]; }

  // --- last uses

  // After the step has run, no hosted layer reads these outputs and needs any more.
  struct readings {
    std::vector<std::pair<std::size_t, std::size_t>> outputs;  // position, output
    std::vector<std::size_t> needs;
    bool input_0 = false;  // one of them is the step's input 0
  };
  const readings& last_reads(std::uint8_t ph, const maths_step& step) const { return phases_[ph].last[index_of(step)]; }
  // The output is sent along an out-edge, in any form.
  bool leaves(std::uint8_t ph, std::size_t position, std::size_t output) const { return phases_[ph].leaves[position][output]; }
  // The output is kept as an input of a hosted layer that is recomputed.
  bool held(std::size_t position, std::size_t output) const { return held_[position][output]; }

 private:
  struct phase_tables {
    std::vector<readings> last;             // by step
    std::vector<std::vector<bool>> leaves;  // by position, output
    bool reports = false;
  };

  void find_needs();
  void find_cuts();
  contributions contributions_of(tensor_ref t, feature_range features) const;
  std::vector<bool> find_held();
  void find_last_reads(std::uint8_t ph, const std::vector<bool>& held_needs);
  void find_costs();
  std::size_t index_of(const maths_step& step) const { return static_cast<std::size_t>(&step - steps_.data()); }

  std::shared_ptr<const model_graph> graph_;
  std::shared_ptr<const job_plan> plan_;
  role_id self_;
  std::vector<maths_step> steps_;
  std::vector<std::size_t> step_of_;                   // by position
  std::vector<backward_wants> wants_of_;               // by step: backward_needs()
  std::vector<std::vector<contributions>> out_grads_;  // by position, output
  std::vector<need_of> needs_;
  std::vector<std::vector<std::int32_t>> need_at_;  // by position, input
  std::vector<feature_range> cuts_;                 // by out-edge
  std::vector<std::vector<bool>> held_;             // by position, output
  phase_tables phases_[2];
  bool wants_backward_ = false;
  task_cost forward_cost_, backward_cost_;
};

}  // namespace troupe
