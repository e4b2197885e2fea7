// The three matrix products of the nets' linear layers, GFLOP/s: by the device, by OpenBLAS, and by
// the device in bf16 (weights and their gradients f32). One thread, the best of many calls. beta =
// 1 selects OpenBLAS, since the device has no kernels for it.
//
// usage: bench_linear [seconds per figure = 0.3]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "ops/device.hpp"

namespace {

troupe::tensor as_bf16(troupe::device& d, const troupe::tensor& from) {
  auto t = troupe::tensor::allocate(d, from.dims(), troupe::dtype::bf16);
  d.copy(from, t);
  return t;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace troupe;
  using clock = std::chrono::steady_clock;
  const double budget = argc > 1 ? std::atof(argv[1]) : 0.3;
  const struct {
    const char* name;
    std::int64_t rows, width, outputs;
  } layers[] = {{"lenet_ip1", 64, 800, 500},     {"lenet_ip1_half", 32, 800, 500}, {"mlp_784_1024", 128, 784, 1024},
                {"mlp_1024", 128, 1024, 1024},   {"mlp_half", 64, 1024, 1024},     {"alexnet_fc6", 32, 9216, 4096},
                {"alexnet_fc7", 32, 4096, 4096}, {"alexnet_fc8", 32, 4096, 1000},  {"alexnet_fc6_half", 16, 9216, 4096},
                {"sgemm", 1024, 1024, 1024}};  // a large product, the reference of the others
  const auto d = make_cpu_device();
  std::printf("layer: forward, data, weights by the device / by OpenBLAS / of bf16 (GFLOP/s)\n");
  for (const auto& l : layers) {
    const tensor x = [&] {
      tensor t = tensor::allocate(*d, {l.rows, l.width}, dtype::f32);
      d->fill_gaussian({.key = 1}, 0, 1, t);
      return t;
    }();
    tensor w = tensor::allocate(*d, {l.outputs, l.width}, dtype::f32), y = tensor::allocate(*d, {l.rows, l.outputs}, dtype::f32);
    tensor dx = tensor::allocate(*d, {l.rows, l.width}, dtype::f32), dw = tensor::allocate(*d, {l.outputs, l.width}, dtype::f32);
    for (tensor* t : {&w, &y, &dx, &dw}) d->fill_gaussian({.key = 2}, 0, 1, *t);
    const auto best = [&](gemm_spec s, const tensor& a, const tensor& b, tensor& c) {
      double least = 1e30;
      const auto end = clock::now() + std::chrono::duration<double>(budget);
      do {
        const auto begin = clock::now();
        d->gemm(s, a, b, c);
        least = std::min(least, std::chrono::duration<double>(clock::now() - begin).count());
      } while (clock::now() < end);
      return 2e-9 * static_cast<double>(l.rows * l.width * l.outputs) / least;
    };
    std::printf("%-17s", l.name);
    for (const double beta : {0.0, 1.0}) {
      std::printf(" %6.1f", best({.transpose_b = true, .m = l.rows, .n = l.outputs, .k = l.width, .beta = beta}, x, w, y));
      std::printf(" %6.1f", best({.m = l.rows, .n = l.width, .k = l.outputs, .beta = beta}, y, w, dx));
      std::printf(" %6.1f  /", best({.transpose_a = true, .m = l.outputs, .n = l.width, .k = l.rows, .beta = beta}, y, x, dw));
    }
    const tensor xb = as_bf16(*d, x);
    tensor yb = as_bf16(*d, y), dxb = as_bf16(*d, dx);
    std::printf(" %6.1f", best({.transpose_b = true, .m = l.rows, .n = l.outputs, .k = l.width}, xb, w, yb));
    std::printf(" %6.1f", best({.m = l.rows, .n = l.width, .k = l.outputs}, yb, w, dxb));
    std::printf(" %6.1f\n", best({.transpose_a = true, .m = l.outputs, .n = l.width, .k = l.rows}, yb, xb, dw));
    std::fflush(stdout);
  }
}
