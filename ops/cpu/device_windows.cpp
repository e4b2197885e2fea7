// The CPU device: pooling and local response normalisation.
#include <algorithm>
#include <vector>

#include "ops/cpu/cpu_device.hpp"
#include "ops/cpu/kernels.hpp"

namespace troupe::cpu {
namespace {

// Row parameters of the average pooling kernels: the outputs that a tap contributes to, and the
// width of each output's window.

// For each tap, the outputs o of a row with 0 <= o * stride + tap - pad < width.
std::vector<tap_range> tap_ranges(const pool_geometry& g) {
  std::vector<tap_range> taps;
  for (i64 j = 0; j < g.kernel_w; ++j) {
    const i64 first = g.pad_w - j, last = g.width - 1 + g.pad_w - j;
    const i64 low = std::min(first <= 0 ? 0 : (first + g.stride_w - 1) / g.stride_w, g.out_w);
    const i64 high = std::min(last < 0 ? 0 : last / g.stride_w + 1, g.out_w);
    taps.push_back({low, std::max(low, high)});
  }
  return taps;
}

// Extent of each output's window along its row, clipped to the image, or to image plus padding.
template <class T>
std::vector<T> column_extents(const pool_geometry& g) {
  std::vector<T> extents;
  for (i64 o = 0; o < g.out_w; ++o) {
    const i64 start = o * g.stride_w - g.pad_w;
    const i64 end = std::min(start + g.kernel_w, g.width + (g.count_padding ? g.pad_w : 0));
    extents.push_back(static_cast<T>(end - (g.count_padding ? start : std::max<i64>(start, 0))));
  }
  return extents;
}

}  // namespace

void cpu_device::max_pool_backward(const pool_geometry& g, const tensor& dy, const tensor& index, tensor& dx) {
  run("max_pool", dx, [&](const auto& k, auto v) {
    using T = decltype(v);
    k.max_pool_backward(g, dy.data<T>(), index.data<std::int32_t>(), out<T>(dx));
  });
}

void cpu_device::lrn(const lrn_geometry& g, const tensor& x, tensor& y, tensor& scale) {
  run("lrn", y, [&](const auto& k, auto v) {
    using T = decltype(v);
    tensor s = lrn_scratch(g, y.type());
    k.lrn(g, x.data<T>(), out<T>(y), out<T>(scale), out<T>(s));
  });
}

void cpu_device::lrn_backward(const lrn_geometry& g, const tensor& x, const tensor& scale, const tensor& dy, tensor& dx) {
  run("lrn", dx, [&](const auto& k, auto v) {
    using T = decltype(v);
    tensor s = lrn_scratch(g, dx.type());
    k.lrn_backward(g, x.data<T>(), scale.data<T>(), dy.data<T>(), out<T>(dx), out<T>(s));
  });
}

tensor cpu_device::lrn_scratch(const lrn_geometry& g, dtype t) {
  const i64 inner = g.height * g.width, padded = (g.height + g.size) * (g.width + g.size) + 2 * g.size;
  return tensor::allocate(*this, shape{g.channels * inner + inner + 2 * padded}, t);
}

void cpu_device::max_pool(const pool_geometry& whole, const tensor& x, tensor& y, tensor& index) {
  auto g = whole;
  if (g.out_w == 1) g.stride_w = 1;  // with one output per row the stride is unused; 1 keeps the scratch row below small
  run("max_pool", y, [&](const auto& k, auto v) {
    using T = decltype(v);
    const i64 row = std::max(g.pad_w + g.width, (g.out_w - 1) * g.stride_w + g.kernel_w);
    tensor scratch = tensor::allocate(*this, shape{2 * (row + k.slack * (g.stride_w + 2))}, y.type());
    k.max_pool(g, x.data<T>(), out<T>(y), out<std::int32_t>(index), out<T>(scratch));
  });
}

void cpu_device::avg_pool(const pool_geometry& g, const tensor& x, tensor& y) {
  run("avg_pool", y, [&](const auto& k, auto v) {
    using T = decltype(v);
    tensor scratch = tensor::allocate(*this, shape{g.width + g.out_w}, y.type());
    k.avg_pool(g, tap_ranges(g).data(), column_extents<T>(g).data(), x.data<T>(), out<T>(y), out<T>(scratch));
  });
}

void cpu_device::avg_pool_backward(const pool_geometry& g, const tensor& dy, tensor& dx) {
  run("avg_pool", dx, [&](const auto& k, auto v) {
    using T = decltype(v);
    tensor scratch = tensor::allocate(*this, shape{g.width + g.out_w}, dx.type());
    k.avg_pool_backward(g, tap_ranges(g).data(), column_extents<T>(g).data(), dy.data<T>(), out<T>(dx), out<T>(scratch));
  });
}

}  // namespace troupe::cpu
