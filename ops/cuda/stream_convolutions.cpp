// Convolutions by cuDNN. Those that name a lowering algorithm, and those for which cuDNN has no
// engine that the rules allow, are composed of im2col and products (ops/device.cpp).
#include "ops/conv_algorithm.hpp"
#include "ops/cuda/aligned.hpp"

namespace troupe::cuda {

const conv_plan* stream::plan_for(const conv_geometry& g, conv_pass pass, const conv_types& types, bool of_bf16) {
  const auto named = algorithm_of(g, pass);
  if (named == conv_algorithm::lowering1 || named == conv_algorithm::lowering2 || named == conv_algorithm::lowering3)
    return nullptr;
  if (g.batch == 0) return nullptr;
  const bool tensor_cores = types.factors == dtype::bf16 || (types.factors == dtype::f32 && (of_bf16 || rules_.tf32));
  return gpu_->convolutions.find(g, pass, types, {.tensor_cores = tensor_cores, .workspace = rules_.conv_workspace});
}

bool stream::convolves_bf16(const conv_geometry& g, conv_pass pass, dtype result) {
  return plan_for(g, pass, {dtype::bf16, result}) != nullptr;
}

// `result` is one of x, w and y: the plan's pass computes it from the other two.
void stream::convolve(const conv_plan& p, const tensor& x, const tensor& w, const tensor& y, tensor& result) {
  operation o(*this);
  auto* out = o.address_out(result);
  auto* made = aligned_copy(o, out, result);
  const auto address = [&](const tensor& t) -> const void* { return &t == &result ? made : aligned_copy(o, o.address_in(t), t); };
  if (!dnn_) dnn_ = std::make_unique<dnn>(queue_->stream());
  dnn_->run(p, address(x), address(w), address(y), p.workspace == 0 ? nullptr : o.scratch(p.workspace));
  if (made != out) copy_within(o, out, made, result.bytes());
}

void stream::convolve_forward(const conv_geometry& g, const tensor& x, const tensor& w, const tensor& bias, tensor& y,
                              bool of_bf16) {
  const auto* p = plan_for(g, conv_pass::forward, {x.type(), y.type()}, of_bf16);
  if (!p) return device::conv_forward(g, x, w, bias, y);
  convolve(*p, x, w, y, y);
  if (bias) add_bias(g.batch, g.outputs, g.pixels(), bias, y);
}
void stream::convolve_data(const conv_geometry& g, const tensor& dy, const tensor& w, tensor& dx, bool of_bf16) {
  const auto* p = plan_for(g, conv_pass::backward_data, {dy.type(), dx.type()}, of_bf16);
  if (!p) return device::conv_backward_data(g, dy, w, dx);
  convolve(*p, dx, w, dy, dx);
}
void stream::convolve_weights(const conv_geometry& g, const tensor& x, const tensor& dy, tensor& dw, bool add, bool of_bf16) {
  const auto* p = plan_for(g, conv_pass::backward_weights, {x.type(), dw.type()}, of_bf16);
  if (!p) return device::conv_backward_weights(g, x, dy, dw, add);
  if (!add) return convolve(*p, x, dw, dy, dw);
  tensor made = tensor::allocate(*this, dw.dims(), dw.type());
  convolve(*p, x, made, dy, made);
  axpy(1.0, made, dw);
}

void stream::conv_forward(const conv_geometry& g, const tensor& x, const tensor& w, const tensor& bias, tensor& y) {
  convolve_forward(g, x, w, bias, y, false);
}
void stream::conv_backward_data(const conv_geometry& g, const tensor& dy, const tensor& w, tensor& dx) {
  convolve_data(g, dy, w, dx, false);
}
void stream::conv_backward_weights(const conv_geometry& g, const tensor& x, const tensor& dy, tensor& dw, bool add) {
  convolve_weights(g, x, dy, dw, add, false);
}
void stream::conv_backward_parameters(const conv_geometry& g, const tensor& x, const tensor& dy, tensor& dw, tensor& db, bool add) {
  device::conv_backward_parameters(g, x, dy, dw, db, add);
}
void stream::conv_tail_forward(const conv_geometry& g, const conv_tail& t, const tensor& x, const tensor& w, const tensor& bias,
                               tensor& y, tensor& index) {
  device::conv_tail_forward(g, t, x, w, bias, y, index);
}
void stream::conv_tail_backward(const conv_geometry& g, const conv_tail& t, const tensor& x, const tensor& w, const tensor& y,
                                const tensor& index, const tensor& dy, tensor& dx, tensor& dw, tensor& db) {
  device::conv_tail_backward(g, t, x, w, y, index, dy, dx, dw, db);
}

}  // namespace troupe::cuda
