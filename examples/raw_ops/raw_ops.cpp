// Layers as a library: a convolution and a linear layer run forward and backward on this program's
// own arrays. No actors, no job file, no threads: the program owns the memory (tensor::borrow),
// calls the layers in order, and prints the results.
//
//   x [2, 1, 4, 4] -> convolution, 2 outputs, 3x3 -> [2, 2, 2, 2] -> linear, 1 output -> y [2, 1]
//   loss = sum of y^2 / 2
#include <array>
#include <cmath>
#include <cstdio>

#include "ops/device.hpp"
#include "ops/registry.hpp"

using namespace troupe;

namespace {

// A layer, its plan, and arrays with its parameters and their gradients.
template <std::size_t Weights, std::size_t Outputs>
struct step {
  std::unique_ptr<layer> maths;
  std::unique_ptr<plan> prepared;
  shapes in, out;
  std::array<float, Weights> weight, weight_gradient;
  std::array<float, Outputs> bias{}, bias_gradient{};
  tensors params, gradients;
  saved kept;

  step(const layer_registry& layers, device& dev, const char* type, const options& given, const shape& input) : in{input} {
    const layer_type* row = layers.find(type);
    maths = row->make(check_options(given, row->specs));
    out = maths->infer(in);
    prepared = maths->prepare(dev, in, phase::train, dtype::f32);
    for (std::size_t i = 0; i < Weights; ++i) weight[i] = 0.1F * static_cast<float>(static_cast<int>(i % 5) - 2);
    const param_specs specs = maths->params(in);
    params = {tensor::borrow(weight.data(), specs[0].dims, dtype::f32), tensor::borrow(bias.data(), specs[1].dims, dtype::f32)};
    gradients = {tensor::borrow(weight_gradient.data(), specs[0].dims, dtype::f32),
                 tensor::borrow(bias_gradient.data(), specs[1].dims, dtype::f32)};
  }
  void forward(context& c, const tensor& x, tensor y) {
    tensors outputs{std::move(y)};
    kept = {};
    maths->forward(c, *prepared, {x}, params, outputs, kept);
    kept.inputs = {x};  // the layer's backward needs them: see backward_needs()
  }
  void backward(context& c, const tensor& dy, tensor dx) {
    tensors inputs{std::move(dx)};
    maths->backward(c, *prepared, kept, params, {dy}, inputs, gradients, false);
  }
};

}  // namespace

int main() {
  const auto dev = make_cpu_device();
  layer_registry layers;
  add_stock_layers(layers);
  context c{.dev = *dev};

  step<18, 2> conv(layers, *dev, "convolution", {{{"outputs", std::int64_t{2}}, {"kernel", std::int64_t{3}}}}, {2, 1, 4, 4});
  step<8, 1> linear(layers, *dev, "linear", {{{"outputs", std::int64_t{1}}}}, conv.out[0]);

  std::array<float, 32> x;
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 7) / 7.0F;
  std::array<float, 16> hidden, hidden_gradient;
  std::array<float, 2> y;

  const tensor input = tensor::borrow(x.data(), {2, 1, 4, 4}, dtype::f32);
  const tensor middle = tensor::borrow(hidden.data(), conv.out[0], dtype::f32);
  const tensor output = tensor::borrow(y.data(), linear.out[0], dtype::f32);
  const auto forward = [&] {
    conv.forward(c, input, middle);
    linear.forward(c, middle, output);
    return (y[0] * y[0] + y[1] * y[1]) / 2;
  };

  const float loss = forward();
  const tensor middle_gradient = tensor::borrow(hidden_gradient.data(), conv.out[0], dtype::f32);
  linear.backward(c, output, middle_gradient);  // dloss / dy = y
  conv.backward(c, middle_gradient, tensor());  // the gradient of x is not needed
  std::printf("y = %.4f, %.4f   loss = %.4f\n", static_cast<double>(y[0]), static_cast<double>(y[1]), static_cast<double>(loss));

  // Checks the gradient of one weight by finite differences, by changing the weight in its array.
  const float before = conv.weight[4], h = 1e-2F;
  conv.weight[4] = before + h;
  const float up = forward();
  conv.weight[4] = before - h;
  const float down = forward();
  const float numeric = (up - down) / (2 * h), computed = conv.weight_gradient[4];
  std::printf("dloss/dweight[4] = %.5f, by finite differences %.5f\n", static_cast<double>(computed), static_cast<double>(numeric));
  return std::fabs(numeric - computed) < 1e-3F ? 0 : 1;
}
