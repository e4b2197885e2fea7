// Softmax, losses and metrics.
#include "ops/cuda/kernels/loss.hpp"
#include "ops/cuda/stream.hpp"

namespace troupe::cuda {
namespace {

double* loss_memory(operation& o, std::int64_t rows, std::int64_t classes) {
  return static_cast<double*>(o.scratch(static_cast<std::size_t>(kernels::loss_scratch(rows, classes)) * sizeof(double)));
}

}  // namespace

void stream::softmax(std::int64_t outer, std::int64_t classes, std::int64_t inner, const tensor& x, tensor& y) {
  operation o(*this);
  by_type(y.type(), [&](auto v) { kernels::softmax(o, outer, classes, inner, o.in<decltype(v)>(x), o.out<decltype(v)>(y)); });
}

void stream::softmax_backward(std::int64_t outer, std::int64_t classes, std::int64_t inner, const tensor& y, const tensor& dy,
                              tensor& dx) {
  operation o(*this);
  by_type(dx.type(), [&](auto v) {
    using T = decltype(v);
    kernels::softmax_backward(o, outer, classes, inner, o.in<T>(y), o.in<T>(dy), o.out<T>(dx));
  });
}

void stream::pointwise_loss(pointwise f, const tensor& x, const tensor& targets, tensor& slope, tensor& loss) {
  operation o(*this);
  const auto rows = x.dims()[0], classes = x.dims().count_from(1);
  auto* scratch = loss_memory(o, rows, classes);
  by_type(x.type(), [&](auto v) {
    using T = decltype(v);
    if (targets.type() == dtype::i32)
      kernels::pointwise_loss(o, f, rows, classes, o.in<T>(x), o.in<std::int32_t>(targets), o.out<T>(slope), o.out<T>(loss),
                              scratch);
    else
      kernels::pointwise_loss(o, f, rows, classes, o.in<T>(x), o.in<T>(targets), o.out<T>(slope), o.out<T>(loss), scratch);
  });
}

void stream::softmax_loss(double smoothing, const tensor& weights, const tensor& x, const tensor& labels, tensor& probability,
                          tensor& loss) {
  operation o(*this);
  const auto rows = x.dims()[0], classes = x.dims().count_from(1);
  auto* scratch = loss_memory(o, rows, classes);
  by_type(x.type(), [&](auto v) {
    using T = decltype(v);
    const T* by_class = weights ? o.in<T>(weights) : nullptr;
    kernels::softmax_loss(o, smoothing, by_class, rows, classes, o.in<T>(x), o.in<std::int32_t>(labels), o.out<T>(probability),
                          o.out<T>(loss), scratch);
  });
}

void stream::softmax_loss_backward(double smoothing, const tensor& weights, const tensor& probability, const tensor& labels,
                                   const tensor& dloss, tensor& dx) {
  operation o(*this);
  const auto rows = probability.dims()[0], classes = probability.dims().count_from(1);
  auto* scratch = loss_memory(o, rows, classes);
  by_type(dx.type(), [&](auto v) {
    using T = decltype(v);
    const T* by_class = weights ? o.in<T>(weights) : nullptr;
    kernels::softmax_loss_backward(o, smoothing, by_class, rows, classes, o.in<T>(probability), o.in<std::int32_t>(labels),
                                   o.in<T>(dloss), o.out<T>(dx), scratch);
  });
}

void stream::top_k(std::int64_t k, const tensor& x, const tensor& labels, tensor& out) {
  operation o(*this);
  const auto rows = x.dims()[0], classes = x.dims().count_from(1);
  auto* scratch = loss_memory(o, rows, classes);
  by_type(x.type(), [&](auto v) {
    using T = decltype(v);
    kernels::top_k(o, k, rows, classes, o.in<T>(x), o.in<std::int32_t>(labels), o.out<T>(out), scratch);
  });
}

}  // namespace troupe::cuda
