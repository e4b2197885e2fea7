// A group of threads has a row of classes; if softmax has an inner axis, a thread has the classes
// of one inner element, and neighbouring threads have neighbouring elements.
//
// Losses take three launches: scratch[0] = number of valid rows; scratch[1 ...] = a sum for each
// row or block; then one block divides the sum of those by the number of valid rows.
#include "ops/cuda/kernels/loss.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/cuda/kernel_language.hpp"
#include "ops/cuda/kernels/thread_group.hpp"

namespace troupe::cuda::kernels {
namespace {

constexpr int losses_of_block = 8 * block_threads;  // elements of pointwise_loss per block

constexpr double infinite_score = std::numeric_limits<double>::infinity(), invalid_loss = std::numeric_limits<double>::quiet_NaN();

// A NaN is larger than every number.
struct larger {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return a > b || a != a ? a : b;
  }
};

// y = softmax of x, by a group. Returns the sum of exp(x - top), and the largest x as `top`.
template <class T, int W>
__device__ T softmax_row(std::int64_t classes, const T* x, T* y, T& top) {
  using group = thread_group<W>;
  top = static_cast<T>(-infinite_score);
  for (std::int64_t c = group::thread(); c < classes; c += W) top = larger{}(x[c], top);
  top = group::fold(top, larger{});
  T sum = T(0);
  for (std::int64_t c = group::thread(); c < classes; c += W) {
    const T e = std::exp(x[c] - top);
    y[c] = e;
    sum += e;
  }
  sum = group::sum(sum);
  const T inverse = T(1) / sum;
  for (std::int64_t c = group::thread(); c < classes; c += W) y[c] *= inverse;
  return sum;
}

template <class T, int W>
__global__ void __launch_bounds__(block_threads) softmax_rows_kernel(std::int64_t rows, std::int64_t classes, const T* x, T* y) {
  const auto r = thread_group<W>::number();
  if (r >= rows) return;
  T top;
  softmax_row<T, W>(classes, x + r * classes, y + r * classes, top);
}

template <class T>
__global__ void __launch_bounds__(block_threads)
    softmax_columns_kernel(std::int64_t columns, std::int64_t classes, std::int64_t inner, const T* x, T* y) {
  const auto column = static_cast<std::int64_t>(blockIdx.x) * block_threads + threadIdx.x;
  if (column >= columns) return;
  const std::int64_t o = column / inner, first = o * classes * inner + (column - o * inner), end = first + classes * inner;
  T top = x[first], sum = T(0);
  for (std::int64_t at = first + inner; at < end; at += inner) top = larger{}(x[at], top);
  for (std::int64_t at = first; at < end; at += inner) {
    const T e = std::exp(x[at] - top);
    y[at] = e;
    sum += e;
  }
  for (std::int64_t at = first; at < end; at += inner) y[at] /= sum;
}

template <class T, int W>
__global__ void __launch_bounds__(block_threads)
    softmax_backward_rows_kernel(std::int64_t rows, std::int64_t classes, const T* y, const T* dy, T* __restrict__ dx) {
  using group = thread_group<W>;
  const auto r = group::number();
  if (r >= rows) return;
  const std::int64_t end = (r + 1) * classes;
  T sum = T(0);
  for (std::int64_t at = r * classes + group::thread(); at < end; at += W) sum += y[at] * dy[at];
  sum = group::sum(sum);
  for (std::int64_t at = r * classes + group::thread(); at < end; at += W) dx[at] = y[at] * (dy[at] - sum);
}

template <class T>
__global__ void __launch_bounds__(block_threads)
    softmax_backward_columns_kernel(std::int64_t columns, std::int64_t classes, std::int64_t inner, const T* y, const T* dy,
                                    T* __restrict__ dx) {
  const auto column = static_cast<std::int64_t>(blockIdx.x) * block_threads + threadIdx.x;
  if (column >= columns) return;
  const std::int64_t o = column / inner, first = o * classes * inner + (column - o * inner), end = first + classes * inner;
  T sum = T(0);
  for (std::int64_t at = first; at < end; at += inner) sum += y[at] * dy[at];
  for (std::int64_t at = first; at < end; at += inner) dx[at] = y[at] * (dy[at] - sum);
}

// scratch[0] = number of valid rows: all of them without labels. One block.
__global__ void __launch_bounds__(block_threads) valid_rows_kernel(std::int64_t rows, const std::int32_t* labels, double* scratch) {
  std::int64_t valid = rows;
  if (labels != nullptr) {
    valid = 0;
    for (std::int64_t r = threadIdx.x; r < rows; r += block_threads) valid += labels[r] >= 0 ? 1 : 0;
    valid = thread_group<block_threads>::sum(valid);
  }
  if (threadIdx.x == 0) scratch[0] = static_cast<double>(valid);
}

// scratch[0] = sum of the weights of the valid rows' labels. One block.
template <class T>
__global__ void __launch_bounds__(block_threads)
    valid_weights_kernel(std::int64_t rows, std::int64_t classes, const T* weights, const std::int32_t* labels, double* scratch) {
  double sum = 0;
  for (std::int64_t r = threadIdx.x; r < rows; r += block_threads)
    if (labels[r] >= 0 && labels[r] < classes) sum += static_cast<double>(weights[labels[r]]);
  sum = thread_group<block_threads>::sum(sum);
  if (threadIdx.x == 0) scratch[0] = sum;
}

// mean = sum of scratch[1] to scratch[count] / valid rows, or 0. One block.
template <class T>
__global__ void __launch_bounds__(block_threads) loss_mean_kernel(std::int64_t count, const double* scratch, T* mean) {
  double sum = 0;
  for (std::int64_t i = threadIdx.x; i < count; i += block_threads) sum += scratch[1 + i];
  sum = thread_group<block_threads>::sum(sum);
  const double valid = scratch[0];
  if (threadIdx.x == 0) *mean = static_cast<T>(valid > 0 || sum != sum ? sum / valid : 0.0);
}

// One element: `value` gets the loss; returns its slope.
template <class T>
__device__ T pointwise_at(pointwise f, T x, T t, T& value) {
  if (f == pointwise::sigmoid) {
    const T e = std::exp(x < T(0) ? x : -x);
    value = (x > T(0) ? x : T(0)) - x * t + std::log(T(1) + e);
    return (x < T(0) ? e : T(1)) / (T(1) + e) - t;
  }
  if (f == pointwise::squared) {
    value = T(0.5) * (x - t) * (x - t);
    return x - t;
  }
  const T s = t > T(0) ? T(-1) : T(1);
  const T margin = T(1) + s * x;
  const T h = margin > T(0) ? margin : (margin == margin ? T(0) : margin);
  value = f == pointwise::hinge_1 ? h : h * h;
  if (f == pointwise::hinge_1) return h > T(0) ? s : T(0) * h;
  return T(2) * s * h;
}

// Either targets or labels is null.
template <class T>
__global__ void __launch_bounds__(block_threads)
    pointwise_loss_kernel(pointwise f, std::int64_t n, std::int64_t classes, const T* x, const T* targets,
                          const std::int32_t* labels, T* __restrict__ slope, double* scratch) {
  const double valid = scratch[0];
  const T share = valid > 0 ? T(1) / static_cast<T>(valid) : T(0);
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * losses_of_block + threadIdx.x;
  double sum = 0;
  for (std::int64_t at = first; at < first + losses_of_block && at < n; at += block_threads) {
    T t;
    if (labels == nullptr) {
      t = targets[at];
    } else {
      const std::int64_t r = at / classes, label = labels[r];
      if (label < 0) {
        slope[at] = T(0);
        continue;
      }
      t = (classes > 1 ? at - r * classes == label : label > 0) ? T(1) : T(0);
    }
    T value;
    slope[at] = share * pointwise_at(f, x[at], t, value);
    sum += static_cast<double>(value);
  }
  sum = thread_group<block_threads>::sum(sum);
  if (threadIdx.x == 0) scratch[1 + blockIdx.x] = sum;
}

// Label smoothing: the target of a class is `off`, and `on` more for the label.
template <class T>
struct smoothed_target {
  using plain = void;
  T on, off;
  bool smooth;
  smoothed_target(double smoothing, std::int64_t classes)
      : on(static_cast<T>(1 - smoothing)), off(static_cast<T>(smoothing / static_cast<double>(classes))), smooth(smoothing > 0) {}
};

template <class T, int W>
__global__ void __launch_bounds__(block_threads)
    softmax_loss_kernel(smoothed_target<T> target, const T* weights, std::int64_t rows, std::int64_t classes, const T* x,
                        const std::int32_t* labels, T* probability, double* scratch) {
  using group = thread_group<W>;
  const auto r = group::number();
  if (r >= rows) return;
  T top;
  const T sum = softmax_row<T, W>(classes, x + r * classes, probability + r * classes, top);
  T below = T(0);     // the sum of x - top
  double spread = 0;  // the sum of weight (x - top - log sum)
  if (target.smooth && weights != nullptr) {
    for (std::int64_t c = group::thread(); c < classes; c += W)
      spread += static_cast<double>(weights[c] * (x[r * classes + c] - top - std::log(sum)));
    spread = group::sum(spread);
  } else if (target.smooth) {
    for (std::int64_t c = group::thread(); c < classes; c += W) below += x[r * classes + c] - top;
    below = group::sum(below);
  }
  if (group::thread() != 0) return;
  const std::int64_t label = labels[r];
  double loss = 0;
  if (label >= classes)
    loss = invalid_loss;
  else if (label >= 0 && weights != nullptr)
    loss = static_cast<double>(target.on * weights[label] * (std::log(sum) - (x[r * classes + label] - top))) -
           static_cast<double>(target.off) * spread;
  else if (label >= 0 && target.smooth)
    loss = static_cast<double>(std::log(sum) - target.on * (x[r * classes + label] - top) - target.off * below);
  else if (label >= 0)
    loss = static_cast<double>(std::log(sum) - (x[r * classes + label] - top));
  scratch[1 + r] = loss;
}

template <class T, int W>
__global__ void __launch_bounds__(block_threads)
    softmax_loss_backward_kernel(smoothed_target<T> target, const T* weights, std::int64_t rows, std::int64_t classes,
                                 const T* probability, const std::int32_t* labels, const T* dloss, T* __restrict__ dx,
                                 const double* scratch) {
  using group = thread_group<W>;
  const auto r = group::number();
  if (r >= rows) return;
  const double valid = scratch[0];
  const T factor = valid > 0 ? *dloss / static_cast<T>(valid) : T(0);
  const std::int64_t label = labels[r];
  T t_sum = T(1);  // of the row's targets
  if (weights != nullptr) {
    T all = T(0);
    for (std::int64_t c = group::thread(); c < classes; c += W) all += weights[c];
    all = group::sum(all);
    t_sum = (label >= 0 && label < classes ? target.on * weights[label] : T(0)) + target.off * all;
  }
  for (std::int64_t c = group::thread(); c < classes; c += W) {
    const T p = probability[r * classes + c];
    const T weight = weights != nullptr ? weights[c] : T(1);
    const T d = factor * (t_sum * p - (c == label ? target.on + target.off : target.off) * weight);
    dx[r * classes + c] = label < 0 ? T(0) : (label >= classes ? static_cast<T>(invalid_loss) : d);
  }
}

// scratch[1 + row] = 1 if the label is among the k largest scores, else 0.
template <class T, int W>
__global__ void __launch_bounds__(block_threads)
    top_k_kernel(std::int64_t k, std::int64_t rows, std::int64_t classes, const T* x, const std::int32_t* labels, double* scratch) {
  using group = thread_group<W>;
  const auto r = group::number();
  if (r >= rows) return;
  const std::int64_t label = labels[r];
  const bool counts = label >= 0 && label < classes;
  const T* in = x + r * classes;
  std::int64_t above = 0;
  if (counts) {
    const T score = in[label];
    for (std::int64_t c = group::thread(); c < classes; c += W) {
      const T v = in[c];
      above += v > score || (v == score && c < label) || v != v ? 1 : 0;
    }
  }
  above = group::sum(above);
  if (group::thread() == 0) scratch[1 + r] = counts && above < k ? 1.0 : 0.0;
}

void count_valid(cudaStream_t stream, std::int64_t rows, const std::int32_t* labels, double* scratch) {
  launch(valid_rows_kernel, 1, block_threads, 0, stream, rows, labels, scratch);
}
template <class T>
void take_divisor(cudaStream_t stream, const T* weights, std::int64_t rows, std::int64_t classes, const std::int32_t* labels,
                  double* scratch) {
  if (weights == nullptr) return count_valid(stream, rows, labels, scratch);
  launch(valid_weights_kernel<T>, 1, block_threads, 0, stream, rows, classes, weights, labels, scratch);
}
template <class T>
void take_mean(cudaStream_t stream, std::int64_t count, const double* scratch, T* mean) {
  launch(loss_mean_kernel<T>, 1, block_threads, 0, stream, count, scratch, mean);
}

template <class T>
void any_pointwise_loss(cudaStream_t stream, pointwise f, std::int64_t rows, std::int64_t classes, const T* x, const T* targets,
                        const std::int32_t* labels, T* slope, T* loss, double* scratch) {
  count_valid(stream, rows, labels, scratch);
  const auto n = rows * classes, blocks = blocks_for(n, losses_of_block);
  if (n > 0)
    launch(pointwise_loss_kernel<T>, static_cast<unsigned>(blocks), block_threads, 0, stream, f, n, classes, x, targets, labels,
           slope, scratch);
  take_mean(stream, blocks, scratch, loss);
}

}  // namespace

template <class T>
void softmax(cudaStream_t stream, std::int64_t outer, std::int64_t classes, std::int64_t inner, const T* x, T* y) {
  const auto columns = outer * inner;
  if (columns * classes == 0) return;
  if (inner == 1)
    launch_groups(stream, outer, classes, softmax_rows_kernel<T, 32>, softmax_rows_kernel<T, block_threads>, outer, classes, x, y);
  else
    launch(softmax_columns_kernel<T>, static_cast<unsigned>(blocks_for(columns, block_threads)), block_threads, 0, stream, columns,
           classes, inner, x, y);
}

template <class T>
void softmax_backward(cudaStream_t stream, std::int64_t outer, std::int64_t classes, std::int64_t inner, const T* y, const T* dy,
                      T* dx) {
  const auto columns = outer * inner;
  if (columns * classes == 0) return;
  if (inner == 1)
    launch_groups(stream, outer, classes, softmax_backward_rows_kernel<T, 32>, softmax_backward_rows_kernel<T, block_threads>,
                  outer, classes, y, dy, dx);
  else
    launch(softmax_backward_columns_kernel<T>, static_cast<unsigned>(blocks_for(columns, block_threads)), block_threads, 0, stream,
           columns, classes, inner, y, dy, dx);
}

std::int64_t loss_scratch(std::int64_t rows, std::int64_t classes) {
  return 1 + std::max(rows, blocks_for(rows * classes, losses_of_block));
}

template <class T>
void pointwise_loss(cudaStream_t stream, pointwise f, std::int64_t rows, std::int64_t classes, const T* x, const T* targets,
                    T* slope, T* loss, double* scratch) {
  const std::int32_t* labels = nullptr;
  any_pointwise_loss(stream, f, rows, classes, x, targets, labels, slope, loss, scratch);
}

template <class T>
void pointwise_loss(cudaStream_t stream, pointwise f, std::int64_t rows, std::int64_t classes, const T* x,
                    const std::int32_t* labels, T* slope, T* loss, double* scratch) {
  const T* targets = nullptr;
  any_pointwise_loss(stream, f, rows, classes, x, targets, labels, slope, loss, scratch);
}

template <class T>
void softmax_loss(cudaStream_t stream, double smoothing, const T* weights, std::int64_t rows, std::int64_t classes, const T* x,
                  const std::int32_t* labels, T* probability, T* loss, double* scratch) {
  take_divisor(stream, weights, rows, classes, labels, scratch);
  if (rows > 0)
    launch_groups(stream, rows, classes, softmax_loss_kernel<T, 32>, softmax_loss_kernel<T, block_threads>,
                  smoothed_target<T>(smoothing, classes), weights, rows, classes, x, labels, probability, scratch);
  take_mean(stream, rows, scratch, loss);
}

template <class T>
void softmax_loss_backward(cudaStream_t stream, double smoothing, const T* weights, std::int64_t rows, std::int64_t classes,
                           const T* probability, const std::int32_t* labels, const T* dloss, T* dx, double* scratch) {
  if (rows * classes == 0) return;
  take_divisor(stream, weights, rows, classes, labels, scratch);
  launch_groups(stream, rows, classes, softmax_loss_backward_kernel<T, 32>, softmax_loss_backward_kernel<T, block_threads>,
                smoothed_target<T>(smoothing, classes), weights, rows, classes, probability, labels, dloss, dx, scratch);
}

template <class T>
void top_k(cudaStream_t stream, std::int64_t k, std::int64_t rows, std::int64_t classes, const T* x, const std::int32_t* labels,
           T* out, double* scratch) {
  count_valid(stream, rows, labels, scratch);
  if (rows > 0)
    launch_groups(stream, rows, classes, top_k_kernel<T, 32>, top_k_kernel<T, block_threads>, k, rows, classes, x, labels, scratch);
  take_mean(stream, rows, scratch, out);
}

#define TROUPE_LOSS(T)                                                                                                           \
  template void softmax(cudaStream_t, std::int64_t, std::int64_t, std::int64_t, const T*, T*);                                   \
  template void softmax_backward(cudaStream_t, std::int64_t, std::int64_t, std::int64_t, const T*, const T*, T*);                \
  template void pointwise_loss(cudaStream_t, pointwise, std::int64_t, std::int64_t, const T*, const T*, T*, T*, double*);        \
  template void pointwise_loss(cudaStream_t, pointwise, std::int64_t, std::int64_t, const T*, const std::int32_t*, T*, T*,       \
                               double*);                                                                                         \
  template void softmax_loss(cudaStream_t, double, const T*, std::int64_t, std::int64_t, const T*, const std::int32_t*, T*, T*,  \
                             double*);                                                                                           \
  template void softmax_loss_backward(cudaStream_t, double, const T*, std::int64_t, std::int64_t, const T*, const std::int32_t*, \
                                      const T*, T*, double*);                                                                    \
  template void top_k(cudaStream_t, std::int64_t, std::int64_t, std::int64_t, const T*, const std::int32_t*, T*, double*);
TROUPE_LOSS(float)
TROUPE_LOSS(double)
#undef TROUPE_LOSS

}  // namespace troupe::cuda::kernels
