// Writes one safetensors file per layer type and case: inputs, parameters, outputs, and gradients
// of outputs, inputs and parameters, as Troupe computes them. layers_torch_test.py compares them
// with PyTorch.
//
// usage: layer_dump DIRECTORY [RANDOM]  also RANDOM random cases of each type that
//                                       tests/ops/random_layers.hpp supports
//        layer_dump DIRECTORY bf16      convolution and linear with activations in bf16 (written as
//                                       f32) and parameters that bf16 represents exactly
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>

#include "ops/device.hpp"
#include "ops/filler.hpp"
#include "ops/registry.hpp"
#include "runtime/record/safetensors.hpp"
#include "tests/ops/random_layers.hpp"

namespace {

using namespace troupe;

std::string text_of(const option_value& v) {
  std::ostringstream s;
  s.precision(17);
  auto list = [&](const auto& items) {
    for (std::size_t i = 0; i < items.size(); ++i) s << (i ? "," : "") << items[i];
  };
  std::visit(
      [&](const auto& x) {
        using T = std::decay_t<decltype(x)>;
        if constexpr (std::is_same_v<T, bool>)
          s << (x ? "true" : "false");
        else if constexpr (std::is_same_v<T, std::shared_ptr<options>>)
          s << "{}";
        else if constexpr (requires { x.begin(); } && !std::is_same_v<T, std::string>)
          list(x);
        else
          s << x;
      },
      v);
  return s.str();
}

tensor as(device& d, const tensor& t, dtype type) {
  if (t.type() == type || t.type() == dtype::i32) return t;
  auto made = tensor::allocate(d, t.dims(), type);
  d.copy(t, made);
  return made;
}

tensor gaussian(device& d, const shape& s, std::uint32_t stream, dtype type) {
  auto t = tensor::allocate(d, s, dtype::f32);
  d.fill_gaussian({42, stream, 7}, 0.0, 1.0, t);
  return as(d, t, type);
}

tensor labels(device& d, const shape& s, std::int64_t classes) {
  auto t = tensor::allocate(d, s, dtype::i32);
  for (std::int64_t i = 0; i < s.count(); ++i) t.mutable_data<std::int32_t>()[i] = static_cast<std::int32_t>((i * 7 + 3) % classes);
  return t;
}

void dump(const layer_type& type, const layer_case& one, device& d, const std::string& directory, dtype activations = dtype::f32) {
  const auto given = check_options(one.given, type.specs);
  const auto maths = type.make(given);
  named_tensors file;
  const auto put = [&](const std::string& name, const tensor& t) { file.emplace_back(name, as(d, t, dtype::f32)); };
  metadata_map meta{{"type", type.name}, {"case", one.name}};
  for (const auto& [k, v] : given.values) meta["opt." + k] = text_of(v);
  tensors in, params, out, grad_out, grad_in, grad_params, stats;
  for (std::size_t i = 0; i < one.in.size(); ++i) {
    const bool label = one.integer_labels && i + 1 == one.in.size();
    in.push_back(label ? labels(d, one.in[i], one.classes) : gaussian(d, one.in[i], static_cast<std::uint32_t>(i), activations));
    put("in." + std::to_string(i), in.back());
  }
  const auto specs = maths->params(one.in);
  for (std::size_t i = 0; i < specs.size(); ++i) {
    params.push_back(as(d, gaussian(d, specs[i].dims, static_cast<std::uint32_t>(100 + i), activations), dtype::f32));
    if (!specs[i].trainable) d.map(unary::absolute, 0.0, params.back(), params.back());
    file.emplace_back("param." + std::to_string(i), params.back());
    grad_params.push_back(specs[i].trainable ? tensor::declare(specs[i].dims, dtype::f32) : tensor{});
  }
  for (const auto& s : maths->infer(one.in)) out.push_back(tensor::declare(s, output_type(*maths, out.size(), activations)));
  auto p = maths->prepare(d, one.in, phase::train, activations);
  context c{d, phase::train, 1, 0, 0, 0, 0, 1, &stats};
  saved kept;
  maths->forward(c, *p, in, params, out, kept);
  for (std::size_t i = 0; i < out.size(); ++i) put("out." + std::to_string(i), out[i]);
  for (std::size_t i = 0; i < stats.size(); ++i) file.emplace_back("stat." + std::to_string(i), stats[i]);
  if (type.name == "rbm")  // the drawn units
    for (std::size_t i = 0; i < 2; ++i) file.emplace_back("extra." + std::to_string(i), kept.extra[i]);
  if (!stats.empty()) {  // the output of an evaluation with the running statistics
    tensors tested{tensor::declare(out[0].dims(), dtype::f32)};
    context t{d, phase::test, 1, 0, 0, 0, 0, 1, nullptr};
    saved none;
    maths->forward(t, *maths->prepare(d, one.in, phase::test, dtype::f32), in, params, tested, none);
    file.emplace_back("tested.0", tested[0]);
  }
  if (!maths->is_metric()) {
    const auto needs = maths->backward_needs(one.in);
    if (needs.inputs) kept.inputs = in;
    if (needs.outputs) kept.outputs = out;
    for (std::size_t i = 0; i < out.size(); ++i) {
      grad_out.push_back(gaussian(d, out[i].dims(), static_cast<std::uint32_t>(200 + i), out[i].type()));
      put("grad_out." + std::to_string(i), grad_out.back());
    }
    for (std::size_t i = 0; i < in.size(); ++i)
      grad_in.push_back(maths->differentiable(i) ? tensor::declare(one.in[i], activations) : tensor{});
    maths->backward(c, *p, kept, params, grad_out, grad_in, grad_params, false);
    for (std::size_t i = 0; i < grad_in.size(); ++i)
      if (grad_in[i]) put("grad_in." + std::to_string(i), grad_in[i]);
    for (std::size_t i = 0; i < grad_params.size(); ++i)
      if (grad_params[i]) file.emplace_back("grad_param." + std::to_string(i), grad_params[i]);
  }
  const auto path = directory + "/" + type.name + "." + one.name + ".safetensors";
  if (auto ok = write_safetensors(path, file, meta); !ok) {
    std::fprintf(stderr, "%s\n", ok.error().to_string().c_str());
    std::exit(1);
  }
  std::printf("%s\n", path.c_str());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2 || argc > 3) return std::fprintf(stderr, "usage: layer_dump DIRECTORY [RANDOM | bf16]\n"), 2;
  auto d = make_cpu_device();
  layer_registry all;
  add_stock_layers(all);
  if (argc == 3 && std::string(argv[2]) == "bf16") {
    for (const auto* name : {"convolution", "linear"})
      for (const auto& one : all.find(name)->cases) dump(*all.find(name), one, *d, argv[1], dtype::bf16);
    return 0;
  }
  for (const auto& name : all.names())
    for (const auto& one : all.find(name)->cases) dump(*all.find(name), one, *d, argv[1]);
  for (const auto& name : test::random_layers::types()) {
    test::random_layers draw(11);
    for (int n = 0; argc == 3 && n < std::atoi(argv[2]); ++n) dump(*all.find(name), draw.draw(name, n), *d, argv[1]);
  }
  return 0;
}
