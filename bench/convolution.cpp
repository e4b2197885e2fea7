// Benchmarks every convolution algorithm on every convolution of the nets: GFLOP/s of each pass.
// The operations of the plain sum are counted, so winograd, which needs fewer, may exceed the peak.
// One thread; the best of many calls, which other work on the machine affects least.
// bench/convolution.py makes the page.
//
// usage: bench_convolution [seconds per figure = 0.2] [part of a layer's name] [algorithm]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>

#include "ops/conv_algorithm.hpp"
#include "ops/device.hpp"

namespace {

using namespace troupe;

struct row {
  const char* name;
  conv_geometry g;
};

conv_geometry square(std::int64_t batch, std::int64_t channels, std::int64_t extent, std::int64_t outputs, std::int64_t kernel,
                     std::int64_t pad, std::int64_t stride = 1, std::int64_t groups = 1) {
  return {.batch = batch,
          .channels = channels,
          .height = extent,
          .width = extent,
          .outputs = outputs,
          .kernel_h = kernel,
          .kernel_w = kernel,
          .stride_h = stride,
          .stride_w = stride,
          .pad_h = pad,
          .pad_w = pad,
          .groups = groups};
}

double best_seconds(double budget, const std::function<void()>& f) {
  using clock = std::chrono::steady_clock;
  double best = 1e30;
  const auto end = clock::now() + std::chrono::duration<double>(budget);
  f();
  do {
    const auto begin = clock::now();
    f();
    best = std::min(best, std::chrono::duration<double>(clock::now() - begin).count());
  } while (clock::now() < end);
  return best;
}

tensor gaussian(device& d, const shape& s, std::uint64_t key) {
  tensor t = tensor::allocate(d, s, dtype::f32);
  d.fill_gaussian({.key = key}, 0.0, 1.0, t);
  return t;
}

tensor as_bf16(device& d, const tensor& from) {
  tensor t = tensor::allocate(d, from.dims(), dtype::bf16);
  d.copy(from, t);
  return t;
}

void announced(const char* layer, const char* algorithm, double flops, double f, double b, double c) {
  std::printf("%-15s %-10s %6.1f %6.1f %6.1f   %8.3f %8.3f %8.3f\n", layer, algorithm, flops / f, flops / b, flops / c, 1e3 * f,
              1e3 * b, 1e3 * c);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  const double budget = argc > 1 ? std::atof(argv[1]) : 0.2;
  const row rows[] = {{"lenet_conv1", square(64, 1, 28, 20, 5, 0)},
                      {"lenet_conv2", square(64, 20, 12, 50, 5, 0)},
                      {"cifar_conv1", square(100, 3, 32, 32, 5, 2)},
                      {"cifar_conv2", square(100, 32, 16, 32, 5, 2)},
                      {"cifar_conv3", square(100, 32, 8, 64, 5, 2)},
                      {"alexnet_conv1", square(32, 3, 227, 96, 11, 0, 4)},
                      {"alexnet_conv2", square(32, 96, 27, 256, 5, 2, 1, 2)},
                      {"alexnet_conv3", square(32, 256, 13, 384, 3, 1)},
                      {"alexnet_conv4", square(32, 384, 13, 384, 3, 1, 1, 2)},
                      {"alexnet_conv5", square(32, 384, 13, 256, 3, 1, 1, 2)},
                      {"resnet20_16", square(128, 16, 32, 16, 3, 1)},
                      {"resnet20_16_32", square(128, 16, 32, 32, 3, 1, 2)},
                      {"resnet20_32", square(128, 32, 16, 32, 3, 1)},
                      {"resnet20_64", square(128, 64, 8, 64, 3, 1)}};
  const auto d = make_cpu_device();
  std::printf("layer algorithm forward data weights (GFLOP/s) ms ms ms\n");
  for (const auto& r : rows) {
    if (argc > 2 && std::strstr(r.name, argv[2]) == nullptr) continue;
    conv_geometry g = r.g;
    const shape xs{g.batch, g.channels, g.height, g.width}, ys{g.batch, g.outputs, g.out_h(), g.out_w()};
    const shape ws{g.outputs, g.group_channels(), g.kernel_h, g.kernel_w};
    const tensor x = gaussian(*d, xs, 1), w = gaussian(*d, ws, 2), bias = gaussian(*d, {g.outputs}, 3), dy = gaussian(*d, ys, 4);
    tensor y = gaussian(*d, ys, 5), dx = gaussian(*d, xs, 6), dw = gaussian(*d, ws, 7);
    const double flops = 2e-9 * static_cast<double>(g.batch * g.outputs * g.pixels() * g.patch());
    if (argc <= 3 || std::strcmp(argv[3], "bf16") == 0) {  // with AMX tiles, if the CPU has them
      const tensor xb = as_bf16(*d, x), dyb = as_bf16(*d, dy);
      tensor yb = as_bf16(*d, y), dxb = as_bf16(*d, dx);
      announced(r.name, "bf16", flops, best_seconds(budget, [&] { d->conv_forward(g, xb, w, bias, yb); }),
                best_seconds(budget, [&] { d->conv_backward_data(g, dyb, w, dxb); }),
                best_seconds(budget, [&] { d->conv_backward_weights(g, xb, dyb, dw); }));
    }
    for (const auto& name : conv_algorithm_names()) {
      g.algorithm = conv_algorithm_named(name);
      if (!why_not(g.algorithm, g).empty() || (argc > 3 && name != argv[3])) continue;
      const double f = best_seconds(budget, [&] { d->conv_forward(g, x, w, bias, y); });
      const double b = best_seconds(budget, [&] { d->conv_backward_data(g, dy, w, dx); });
      const double c = best_seconds(budget, [&] { d->conv_backward_weights(g, x, dy, dw); });
      announced(r.name, name.c_str(), flops, f, b, c);
    }
  }
}
