// The layer contract (docs/ARCHITECTURE.md, "A layer"). A layer is const: it holds its options and
// nothing of a pass, so any number of packets may be in flight through one layer. What a pass needs
// lives in `plan` (one per stage, sub-solver, device and phase: packed weights, workspace, library
// descriptors) and in `saved` (one per packet: what backward wants back).
//
// Conventions:
//   * dimension 0 of every activation is the example axis, and infer() is called with a packet's
//     shapes.
//   * forward() and backward() find outputs / gradients declared with the inferred shapes and back
//     them (tensor::back) before writing; they may instead alias an input (flatten: outputs[0] =
//     inputs[0].reshaped(...)).
//   * backward(): grad_in[i] / grad_params[i] is empty when nobody wants it: skip that work.
//     Everything wanted is ASSIGNED, or added to what is there when `accumulate` (grad_params
//     only).
//   * params are read-only, shared by all sub-solvers of a node, and frozen.
//   * in a bf16 job activations and their gradients are bf16; parameters, their gradients,
//     statistics, carried state and output 0 of a loss or metric are f32 (wide_of()), and so should
//     be sums and tables that a layer keeps for itself.
// Errors: infer() throws shape_error with both shapes in the message; the caller adds the layer's
// name. Others assert.
// Threads: all members const; two threads may call forward at the same time with different plans.
#pragma once

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "ops/options.hpp"
#include "ops/tensor.hpp"

namespace troupe {

class device;

enum class phase : std::uint8_t { train, test };

struct shape_error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The most outputs that a layer may have: a job file names them with up to four digits
// ("slice1.9999").
constexpr std::int64_t max_outputs = 10000;

// How a tensor lies over several workers. `partial` is a sum still to be taken; gradient duals:
// broadcast <-> partial.
enum class distribution : std::uint8_t { split_0, split_1, broadcast, partial };
struct signature {
  std::vector<distribution> inputs, params, outputs;
};
using signatures = std::vector<signature>;

struct filler_spec {
  std::string kind = "constant";  // constant | uniform | gaussian | xavier | msra  (ops/filler.hpp)
  options values;
};
struct param_spec {
  std::string name;  // "weight", "bias"
  shape dims;
  filler_spec filler;
  double lr_multiplier = 1.0;
  double decay_multiplier = 1.0;
  bool trainable = true;  // false: a buffer, folded from stats_out: buffer = (1 - momentum) buffer + momentum statistic, a packet
  double momentum = 0.1;  // of a buffer
  bool once_a_step = false;  // the packets of a step have the statistic in common: fold it once
  int slice_axis = 0;        // the axis a split(1) partition cuts; -1: whole on every worker
};
using param_specs = std::vector<param_spec>;

// A recurrent state: produced at step t, consumed at t+1, keyed by lane (example position), zeroed
// on reset. dims: of a packet, lanes first. Under algorithm "bptt" the host hands it to forward
// (context::carried_in) and takes it back (carried_out); a gradient does not flow into it. Without,
// every packet begins with zeros.
struct carry_spec {
  std::string name;
  shape dims;
};
using carry_specs = std::vector<carry_spec>;

// What an input holds: values, which have the type of activations; or numbers of things (labels,
// words), which are i32. `any`: only its shape is looked at, or the layer asks the tensor.
enum class holding : std::uint8_t { values, ids, any };

struct backward_needs {
  bool inputs = true;
  bool outputs = false;
  std::int64_t saved_bytes = 0;  // beyond inputs and outputs, for one packet
};

// What forward leaves for backward of the same packet.
struct saved {
  tensors inputs;   // kept by the host when backward_needs().inputs
  tensors outputs;  // kept by the host when backward_needs().outputs
  tensors extra;    // the layer's own (masks, argmax, scale)
};

struct plan {
  virtual ~plan() = default;
};

struct context {
  device& dev;
  phase ph = phase::train;
  std::uint64_t seed = 0;   // of the job
  std::uint32_t layer = 0;  // index in the model, stable under placement
  std::uint64_t step = 0;
  std::uint64_t first_example = 0;  // index in the step's global batch of the packet's first example
  std::uint32_t packet = 0;
  std::uint32_t packets = 1;
  // Where forward, in training, leaves one statistic for each parameter that is not trainable, in
  // their order; the shard folds them in packet order. Null: nobody wants them.
  tensors* stats_out = nullptr;
  // Forward only, in the order of carries(). In: null, or one a carry, empty for zeros. Out: null
  // when nobody keeps it; else forward appends one a carry, in memory that nothing else sees.
  const tensors* carried_in = nullptr;
  tensors* carried_out = nullptr;
};

// The maths of a layer whose packets of one step compute together (batch_norm with stats =
// "batch"): each measures its own part, and goes on when those of all packets are there
// (runtime/stage/joint_stage.hpp). Measurements come in packet order, all packets have equally many
// examples, and what is made of them depends on nothing else, so the same bits come out wherever
// packets are computed. As in layer: all const, and what is wanted is assigned. layer::forward and
// backward are those of a step with one packet.
struct joint_maths {
  virtual ~joint_maths() = default;
  virtual shape measured(const shapes& in) const = 0;  // of a measurement, forward and backward
  virtual tensor measure(context& c, const tensors& in) const = 0;
  virtual void forward_with(context& c, const tensors& measured, const tensors& in, const tensors& params, tensors& out,
                            saved& s) const = 0;
  // Also makes the gradients of the parameters: they are sums over packets like those of any other
  // layer.
  virtual tensor measure_back(context& c, const saved& s, const tensors& params, const tensors& grad_out,
                              tensors& grad_params) const = 0;
  virtual void backward_with(context& c, const tensors& measured, const saved& s, const tensors& params, const tensors& grad_out,
                             tensors& grad_in) const = 0;
};

// The maths of several packets of a step at once (a layer with gather = true;
// runtime/stage/gather_stage.hpp), in training: to the bits of packet by packet, gradients of
// parameters added as packet_sum.hpp says. Inputs, outputs, what is saved and their gradients hold
// the packets one behind the other along axis 0. The context is the first packet's. As in layer:
// all const, and what is wanted is assigned.
struct gathered_maths {
  virtual ~gathered_maths() = default;
  virtual void forward_all(context& c, std::int64_t packets, plan& p, const tensors& in, const tensors& params, tensors& out,
                           saved& s) const = 0;
  virtual void backward_all(context& c, std::int64_t packets, plan& p, const saved& s, const tensors& params,
                            const tensors& grad_out, tensors& grad_in, tensors& grad_params) const = 0;
};

struct layer {
  virtual ~layer() = default;

  // Output shapes for these input shapes. Throws shape_error.
  virtual shapes infer(const shapes& in) const = 0;
  virtual signatures supported() const = 0;
  // The layer that makes features [begin, end) (axis 1) of this one's `all`, of a split_1
  // signature. Null: this layer does, given that part of its inputs (element-wise layers, pooling).
  virtual std::shared_ptr<const layer> part(std::int64_t begin, std::int64_t end, std::int64_t all) const {
    return (void)begin, (void)end, (void)all, nullptr;
  }
  // The layer whose output is one addend of this one's, given features [begin, end) (axis 1) of its
  // input's `all`, of a signature {split_1} -> {partial}: parameters that are split_1 there are cut
  // along axis 1 like the input, and what is to be added once (those that are broadcast, a bias)
  // only the `first` has, the addend that begins at 0. Null: this layer does, and has nothing that
  // is added once.
  virtual std::shared_ptr<const layer> addend(std::int64_t begin, std::int64_t end, std::int64_t all, bool first) const {
    return (void)begin, (void)end, (void)all, (void)first, nullptr;
  }
  // The layer that computes this one followed by `next`, which alone reads output 0, the only one:
  // to the same bits, gradients included. Its parameters are this one's and then next's, its
  // context this one's (no random numbers of next's own). `in`: this one's inputs.
  // Null: there is none. What it returns may absorb further layers in turn.
  virtual std::shared_ptr<const layer> absorb(const layer& next, const shapes& in) const { return (void)next, (void)in, nullptr; }
  virtual param_specs params(const shapes& in) const { return (void)in, param_specs{}; }
  virtual carry_specs carries(const shapes& in) const { return (void)in, carry_specs{}; }
  virtual struct backward_needs backward_needs(const shapes& in) const { return (void)in, troupe::backward_needs{}; }

  virtual bool is_loss() const { return false; }        // output 0 is a scalar to minimise, mean over the packet's examples
  virtual bool is_metric() const { return false; }      // output 0 is a scalar to report; no gradient flows back
  virtual bool more_is_better() const { return true; }  // of a metric: the first such one is the job's accuracy
  virtual bool differentiable(std::size_t input) const { return (void)input, true; }  // false: labels
  virtual bool test_phase_only() const { return false; }
  // What input `input` must hold where inputs have the shapes `in`; outputs hold values
  // (output_type). The graph checks every edge. Unless a layer says otherwise, what has no gradient
  // is ids, but for what a loss or metric judges: its input 0.
  virtual holding holds(std::size_t input, const shapes& in) const;
  // Of an input that holds ids: those below this have a place (scores, rows of a table); 0: it is
  // never looked up. Unless a loss or metric says otherwise, it looks for a label's score in input
  // 0.
  virtual std::int64_t ids_below(std::size_t input, const shapes& in) const;
  // True: grad_out[o] of an output o > 0 that nobody sends a gradient for is empty. Else it is
  // there, and zero.
  virtual bool takes_absent_gradients() const { return false; }
  // True: forward may be given outputs[0] in the memory of inputs[0], and backward grad_in[0] in
  // that of grad_out[0]: shapes are alike and what is written does not depend on what has been
  // overwritten. The host does so where nobody else reads them any more.
  virtual bool in_place() const { return false; }
  virtual const joint_maths* joint() const { return nullptr; }        // not null: its packets compute together, in training
  virtual const gathered_maths* gathered() const { return nullptr; }  // not null: they can, where the file asks for it

  // Multiply-adds x 2 of forward for one packet; 0 when negligible. For plans and simulation.
  virtual double flops(const shapes& in) const { return (void)in, 0.0; }

  virtual std::unique_ptr<plan> prepare(device& d, const shapes& in, phase ph, dtype t) const;
  virtual void forward(context& c, plan& p, const tensors& in, const tensors& params, tensors& out, saved& s) const = 0;
  virtual void backward(context& c, plan& p, const saved& s, const tensors& params, const tensors& grad_out, tensors& grad_in,
                        tensors& grad_params, bool accumulate) const = 0;
};

// The type of output `o` where activations are of type t: what is reported is wide.
inline dtype output_type(const layer& l, std::size_t o, dtype t) {
  return o == 0 && (l.is_loss() || l.is_metric()) ? wide_of(t) : t;
}

}  // namespace troupe
