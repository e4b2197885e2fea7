// The layer interface (docs/ARCHITECTURE.md, "A layer"). A layer is const: it holds its options and
// no state of a pass, so any number of packets may be in flight through one layer. The state of a
// pass is in `plan` (one per stage, sub-solver, device and phase: packed weights, workspace,
// library descriptors) and in `saved` (one per packet: the tensors that backward needs).
//
// Conventions:
//   * Dimension 0 of every activation is the example axis. infer() receives the shapes of one
//     packet.
//   * Outputs and gradients are declared with the inferred shapes. forward() and backward() back
//     them (tensor::back) before writing, or alias an input (flatten: outputs[0] =
//     inputs[0].reshaped(...)).
//   * An empty grad_in[i] or grad_params[i] is not needed: skip its computation. All others are
//     ASSIGNED; with `accumulate`, gradients of parameters are added to the existing values.
//   * Parameters are read-only, frozen, and shared by all sub-solvers of a node.
//   * In a bf16 job, activations and their gradients are bf16. Parameters, their gradients,
//     statistics, carried state and output 0 of a loss or metric are f32 (wide_of()). Sums and
//     tables inside a layer should also be f32.
// Errors: infer() throws shape_error with the expected and the given shapes in the message; the
// caller adds the layer's name. All other errors assert.
// Threads: all members are const. Two threads may call forward at the same time with different
// plans.
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

// Maximum number of outputs of a layer: a job file names an output with up to four digits
// ("slice1.9999").
constexpr std::int64_t max_outputs = 10000;

// How a tensor is distributed over several workers. split_0, split_1: along axis 0 or 1. broadcast:
// a copy on each. partial: each holds one addend of the sum. A gradient has the dual distribution:
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
  // trainable = false: a buffer, folded from stats_out once per packet: buffer = (1 - momentum)
  // buffer + momentum statistic
  bool trainable = true;
  double momentum = 0.1;       // of a buffer: weight of a new statistic
  bool once_a_step = false;    // all packets of a step have the same statistic: fold it once per step
  std::int64_t zero_row = -1;  // row (axis 0) that begins with zeros, whatever the filler; -1: none
  int slice_axis = 0;          // axis that a split_1 partition cuts; -1: every worker has the whole parameter
};
using param_specs = std::vector<param_spec>;

// A recurrent state: produced at step t, consumed at step t + 1. Row i belongs to sequence slot i
// of the batch and is zeroed on reset. dims: of one packet, sequence slots first. Under algorithm
// "bptt" the host passes it to forward (context::carried_in) and takes the new one
// (context::carried_out); no gradient flows into it. Otherwise every packet begins with zeros.
struct carry_spec {
  std::string name;
  shape dims;
};
using carry_specs = std::vector<carry_spec>;

// Contents of an input. values: numbers of the activations' type. ids: indices (labels, words) of
// type i32. any: the layer uses only the shape, or checks the tensor's type itself.
enum class holding : std::uint8_t { values, ids, any };

struct backward_needs {
  bool inputs = true;
  bool outputs = false;
  std::int64_t saved_bytes = 0;  // per packet, in addition to inputs and outputs
};

// Tensors that forward retains for backward of the same packet.
struct saved {
  tensors inputs;   // set by the host if backward_needs().inputs
  tensors outputs;  // set by the host if backward_needs().outputs
  tensors extra;    // set by the layer (masks, argmax, scale)
};

struct plan {
  virtual ~plan() = default;
};

struct context {
  device& dev;
  phase ph = phase::train;
  std::uint64_t seed = 0;   // of the job
  std::uint32_t layer = 0;  // index in the model; the same for every placement
  std::uint64_t step = 0;
  std::uint64_t first_example = 0;  // index of the packet's first example in the step's global batch
  std::uint32_t packet = 0;
  std::uint32_t packets = 1;
  // If not null, forward in training appends one statistic for each parameter that is not
  // trainable, in their order. The shard folds them in packet order. Null: no statistics are
  // needed.
  tensors* stats_out = nullptr;
  // Forward only, in the order of carries(). carried_in: null, or one tensor per carry, empty for
  // zeros. carried_out: null if the state is not retained; otherwise forward appends one tensor per
  // carry, in memory that nothing else refers to.
  const tensors* carried_in = nullptr;
  tensors* carried_out = nullptr;
};

// Computation of a layer whose packets of one step depend on each other (batch_norm with stats =
// "batch"): each packet computes a measurement, and continues when those of all packets are
// available (runtime/stage/joint_stage.hpp). Measurements are given in packet order, and all
// packets have the same number of examples. Results depend on nothing else, so the bits do not
// depend on where a packet is computed. All members are const and assign their outputs, as in
// layer. layer::forward and layer::backward compute a step of a single packet.
struct joint_maths {
  virtual ~joint_maths() = default;
  virtual shape measured(const shapes& in) const = 0;  // shape of a measurement, for forward and backward
  virtual tensor measure(context& c, const tensors& in) const = 0;
  virtual void forward_with(context& c, const tensors& measured, const tensors& in, const tensors& params, tensors& out,
                            saved& s) const = 0;
  // Also computes the gradients of the parameters, which are summed over packets as for any other
  // layer.
  virtual tensor measure_back(context& c, const saved& s, const tensors& params, const tensors& grad_out,
                              tensors& grad_params) const = 0;
  virtual void backward_with(context& c, const tensors& measured, const saved& s, const tensors& params, const tensors& grad_out,
                             tensors& grad_in) const = 0;
};

// Computation of several packets of a step in one call (a layer with gather = true, in training;
// runtime/stage/gather_stage.hpp). Results are bit-identical to packet by packet; gradients of
// parameters are added in the order of packet_sum.hpp. Inputs, outputs, saved tensors and their
// gradients hold the packets concatenated along axis 0. The context is that of the first packet.
// All members are const and assign their outputs, as in layer.
struct gathered_maths {
  virtual ~gathered_maths() = default;
  virtual void forward_all(context& c, std::int64_t packets, plan& p, const tensors& in, const tensors& params, tensors& out,
                           saved& s) const = 0;
  virtual void backward_all(context& c, std::int64_t packets, plan& p, const saved& s, const tensors& params,
                            const tensors& grad_out, tensors& grad_in, tensors& grad_params) const = 0;
};

struct layer {
  virtual ~layer() = default;

  // Output shapes for the given input shapes. Throws shape_error.
  virtual shapes infer(const shapes& in) const = 0;
  virtual signatures supported() const = 0;
  // For a split_1 signature: returns the layer that computes features [begin, end) (axis 1) of this
  // layer's `all` output features. Null: this layer does so when it is given that part of its
  // inputs (element-wise layers, pooling).
  virtual std::shared_ptr<const layer> part(std::int64_t begin, std::int64_t end, std::int64_t all) const {
    return (void)begin, (void)end, (void)all, nullptr;
  }
  // For a signature {split_1} -> {partial}: returns the layer that computes one addend of this
  // layer's output from features [begin, end) (axis 1) of its `all` input features. Parameters that
  // the signature marks split_1 are cut along axis 1 like the input. Terms that must be added only
  // once (broadcast parameters, such as a bias) belong to the addend with `first` set, which begins
  // at 0. Null: this layer does so itself and has no such terms.
  virtual std::shared_ptr<const layer> addend(std::int64_t begin, std::int64_t end, std::int64_t all, bool first) const {
    return (void)begin, (void)end, (void)all, (void)first, nullptr;
  }
  // Fusion: returns a layer that computes this layer followed by `next`, bit-identical including
  // the gradients. `next` is the only reader of output 0, which is the only output. Parameters:
  // those of this layer, then those of `next`. The context is that of this layer (random numbers of
  // `next` are not supported). `in`: inputs of this layer. Null: no such layer exists. The returned
  // layer may absorb further layers.
  virtual std::shared_ptr<const layer> absorb(const layer& next, const shapes& in) const { return (void)next, (void)in, nullptr; }
  virtual param_specs params(const shapes& in) const { return (void)in, param_specs{}; }
  virtual carry_specs carries(const shapes& in) const { return (void)in, carry_specs{}; }
  virtual struct backward_needs backward_needs(const shapes& in) const { return (void)in, troupe::backward_needs{}; }

  virtual bool is_loss() const { return false; }        // output 0 is a scalar to minimise, the mean over the packet's examples
  virtual bool is_metric() const { return false; }      // output 0 is a scalar to report; it has no gradient
  virtual bool more_is_better() const { return true; }  // of a metric; the first metric that returns true is the job's accuracy
  virtual bool differentiable(std::size_t input) const { return (void)input, true; }  // false: labels
  virtual bool test_phase_only() const { return false; }
  // Of a loss or metric: the weight of its mean over these inputs in a mean over several packets,
  // as a scalar of type wide_of() on c.dev (the number of labels that count, or the sum of their
  // weights): finite and not negative, or the job fails. Empty: the number of examples.
  virtual tensor mean_weight(context& c, const tensors& in) const { return (void)c, (void)in, tensor{}; }
  // Why the layer cannot be trained with `packets` packets a step of inputs of these shapes; empty:
  // it can. infer() accepts such shapes, which occur in evaluations and predictions.
  virtual std::string untrainable(const shapes& in, std::int64_t packets) const { return (void)in, (void)packets, std::string{}; }
  // Required contents of input `input`, for inputs of shapes `in`. Outputs always hold values
  // (output_type). The graph checks every edge. Default: ids for an input without gradient, values
  // otherwise and for input 0 of a loss or metric.
  virtual holding holds(std::size_t input, const shapes& in) const;
  // For an input of ids: ids must be below this number (of scores, of table rows). 0: no bound.
  // Default, for labels of a loss or metric: the number of scores in input 0.
  virtual std::int64_t ids_below(std::size_t input, const shapes& in) const;
  // True: for an output o > 0 that receives no gradient, grad_out[o] is empty. False: it is a
  // tensor of zeros.
  virtual bool takes_absent_gradients() const { return false; }
  // True: outputs[0] of forward may share memory with inputs[0], and grad_in[0] of backward with
  // grad_out[0]. Their shapes must be equal, and no result may depend on an overwritten element.
  // The host uses this when nothing else reads these tensors.
  virtual bool in_place() const { return false; }
  virtual const joint_maths* joint() const { return nullptr; }  // not null: packets of a step are computed jointly in training
  // Not null: several packets can be computed in one call (gather = true).
  virtual const gathered_maths* gathered() const { return nullptr; }

  // Floating-point operations of forward for one packet (2 per multiply-add); 0 if negligible. Used
  // for plans and simulations.
  virtual double flops(const shapes& in) const { return (void)in, 0.0; }

  virtual std::unique_ptr<plan> prepare(device& d, const shapes& in, phase ph, dtype t) const;
  virtual void forward(context& c, plan& p, const tensors& in, const tensors& params, tensors& out, saved& s) const = 0;
  virtual void backward(context& c, plan& p, const saved& s, const tensors& params, const tensors& grad_out, tensors& grad_in,
                        tensors& grad_params, bool accumulate) const = 0;
};

// Type of output `o` where activations have type t: losses and metrics are wide.
inline dtype output_type(const layer& l, std::size_t o, dtype t) {
  return o == 0 && (l.is_loss() || l.is_metric()) ? wide_of(t) : t;
}

}  // namespace troupe
