// Each thread computes one unit of one example at a time, with all gates of the unit. Neighbouring
// threads have neighbouring units. The formulas are those of ops/cpu/cell.inl.
#include "ops/cuda/kernels/cell.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "ops/cuda/kernel_language.hpp"

namespace troupe::cuda::kernels {
namespace {

constexpr int cell_threads = 256;
constexpr std::int64_t most_cell_blocks = 2048;  // fills the largest GPU; threads loop over the rest

// count: rows * units.
struct cell_extents {
  using plain = void;
  std::int64_t count, units, stride;
};

// Offsets of a unit of an example, in elements.
struct cell_place {
  std::int64_t unit;   // in bias
  std::int64_t state;  // in h, c and their gradients
  std::int64_t gate;   // in gates and dgates: that of the first gate
  std::int64_t y;      // in y and dy
};

// Calls f(place) for the places of this thread. The threads of the grid cover all units of all
// examples.
template <int Gates, class F>
__device__ void for_cells(const cell_extents& e, F f) {
  const std::int64_t step = static_cast<std::int64_t>(blockDim.x) * gridDim.x;
  for (std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; at < e.count; at += step) {
    // Unsigned, because the division takes fewer instructions.
    const auto row = static_cast<std::int64_t>(static_cast<std::uint64_t>(at) / static_cast<std::uint64_t>(e.units));
    const std::int64_t unit = at - row * e.units;
    f(cell_place{unit, at, row * Gates * e.units + unit, row * e.stride + unit});
  }
}

template <class T>
__device__ T cell_sigmoid(T x) {
  return T(1) / (T(1) + std::exp(-x));
}

template <class T, bool Relu>
__global__ void __launch_bounds__(cell_threads) rnn_kernel(cell_extents e, const T* bias, const T* gates, T* h, T* y) {
  for_cells<1>(e, [=](const cell_place& p) {
    const T a = gates[p.gate] + bias[p.unit];
    const T value = Relu ? (a < T(0) ? T(0) : a) : std::tanh(a);
    h[p.state] = value;
    y[p.y] = value;
  });
}

template <class T>
__global__ void __launch_bounds__(cell_threads)
    lstm_kernel(cell_extents e, const T* bias, T* gates, const T* c_before, T* c, T* h, T* y) {
  for_cells<4>(e, [=](const cell_place& p) {
    const T* b = bias + p.unit;
    T* gate = gates + p.gate;
    const std::int64_t n = e.units;
    const T i = cell_sigmoid(gate[0] + b[0]), f = cell_sigmoid(gate[n] + b[n]);
    const T g = std::tanh(gate[2 * n] + b[2 * n]), o = cell_sigmoid(gate[3 * n] + b[3 * n]);
    const T state = f * c_before[p.state] + i * g;
    const T value = o * std::tanh(state);
    gate[0] = i;
    gate[n] = f;
    gate[2 * n] = g;
    gate[3 * n] = o;
    c[p.state] = state;
    h[p.state] = value;
    y[p.y] = value;
  });
}

template <class T>
__global__ void __launch_bounds__(cell_threads) gru_kernel(cell_extents e, const T* bias, T* gates, const T* h_before, T* h, T* y) {
  for_cells<4>(e, [=](const cell_place& p) {
    const T* b = bias + p.unit;
    T* gate = gates + p.gate;
    const std::int64_t n = e.units;
    const T r = cell_sigmoid(gate[0] + b[0]), z = cell_sigmoid(gate[n] + b[n]);
    const T q = gate[3 * n] + b[3 * n];
    const T m = std::tanh(gate[2 * n] + b[2 * n] + r * q);
    const T value = m + z * (h_before[p.state] - m);
    gate[0] = r;
    gate[n] = z;
    gate[2 * n] = m;
    gate[3 * n] = q;
    h[p.state] = value;
    y[p.y] = value;
  });
}

template <class T, bool Relu>
__global__ void __launch_bounds__(cell_threads)
    rnn_backward_kernel(cell_extents e, const T* h, const T* dy, const T* dh, T* dgates) {
  for_cells<1>(e, [=](const cell_place& p) {
    const T value = h[p.state], d = dy[p.y] + dh[p.state];
    if constexpr (Relu)
      dgates[p.gate] = value > T(0) ? d : T(0);
    else
      dgates[p.gate] = d * (T(1) - value * value);
  });
}

template <class T>
__global__ void __launch_bounds__(cell_threads) lstm_backward_kernel(cell_extents e, const T* gates, const T* c_before, const T* c,
                                                                     const T* dy, const T* dh, T* dc, T* dgates) {
  for_cells<4>(e, [=](const cell_place& p) {
    const T* gate = gates + p.gate;
    T* d_gate = dgates + p.gate;
    const std::int64_t n = e.units;
    const T d = dy[p.y] + dh[p.state], t = std::tanh(c[p.state]), before = c_before[p.state];
    const T i = gate[0], f = gate[n], g = gate[2 * n], o = gate[3 * n];
    const T dc_all = dc[p.state] + d * o * (T(1) - t * t);
    d_gate[0] = dc_all * g * (i * (T(1) - i));
    d_gate[n] = dc_all * before * (f * (T(1) - f));
    d_gate[2 * n] = dc_all * i * (T(1) - g * g);
    d_gate[3 * n] = d * t * (o * (T(1) - o));
    dc[p.state] = dc_all * f;
  });
}

template <class T>
__global__ void __launch_bounds__(cell_threads)
    gru_backward_kernel(cell_extents e, const T* gates, const T* h_before, const T* dy, T* dh, T* dgates) {
  for_cells<4>(e, [=](const cell_place& p) {
    const T* gate = gates + p.gate;
    T* d_gate = dgates + p.gate;
    const std::int64_t n = e.units;
    const T d = dy[p.y] + dh[p.state], before = h_before[p.state];
    const T r = gate[0], z = gate[n], m = gate[2 * n], q = gate[3 * n];
    const T d_sum = d * (T(1) - z) * (T(1) - m * m);
    d_gate[0] = d_sum * q * (r * (T(1) - r));
    d_gate[n] = d * (before - m) * (z * (T(1) - z));
    d_gate[2 * n] = d_sum;
    d_gate[3 * n] = d_sum * r;
    dh[p.state] = d * z;
  });
}

template <class... P, class... A>
void launch_cells(void (*kernel)(cell_extents, P...), cudaStream_t stream, const cell_spec& s, A... args) {
  const cell_extents e{s.rows * s.units, s.units, s.stride};
  if (e.count == 0) return;
  const std::int64_t blocks = std::min((e.count + cell_threads - 1) / cell_threads, most_cell_blocks);
  launch(kernel, static_cast<unsigned>(blocks), cell_threads, 0, stream, e, args...);
}

}  // namespace

template <class T>
void cell_forward(cudaStream_t stream, const cell_spec& s, const T* bias, T* gates, const T* h_before, const T* c_before, T* c,
                  T* h, T* y) {
  switch (s.kind) {
    case cell_kind::rnn_tanh: return launch_cells(rnn_kernel<T, false>, stream, s, bias, gates, h, y);
    case cell_kind::rnn_relu: return launch_cells(rnn_kernel<T, true>, stream, s, bias, gates, h, y);
    case cell_kind::lstm: return launch_cells(lstm_kernel<T>, stream, s, bias, gates, c_before, c, h, y);
    case cell_kind::gru: return launch_cells(gru_kernel<T>, stream, s, bias, gates, h_before, h, y);
  }
}

template <class T>
void cell_backward(cudaStream_t stream, const cell_spec& s, const T* gates, const T* h_before, const T* h, const T* c_before,
                   const T* c, const T* dy, T* dh, T* dc, T* dgates) {
  switch (s.kind) {
    case cell_kind::rnn_tanh: return launch_cells(rnn_backward_kernel<T, false>, stream, s, h, dy, dh, dgates);
    case cell_kind::rnn_relu: return launch_cells(rnn_backward_kernel<T, true>, stream, s, h, dy, dh, dgates);
    case cell_kind::lstm: return launch_cells(lstm_backward_kernel<T>, stream, s, gates, c_before, c, dy, dh, dc, dgates);
    case cell_kind::gru: return launch_cells(gru_backward_kernel<T>, stream, s, gates, h_before, dy, dh, dgates);
  }
}

#define TROUPE_CELL_KERNELS(T)                                                                                                    \
  template void cell_forward(cudaStream_t, const cell_spec&, const T*, T*, const T*, const T*, T*, T*, T*);                       \
  template void cell_backward(cudaStream_t, const cell_spec&, const T*, const T*, const T*, const T*, const T*, const T*, T*, T*, \
                              T*);
TROUPE_CELL_KERNELS(float)
TROUPE_CELL_KERNELS(double)
#undef TROUPE_CELL_KERNELS

}  // namespace troupe::cuda::kernels
