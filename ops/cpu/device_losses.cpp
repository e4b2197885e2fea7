// The CPU device: losses, softmax and top_k.
#include "ops/cpu/cpu_device.hpp"

namespace troupe::cpu {

namespace {

template <class T>
const T* values_or_null(const tensor& t) {
  return t ? t.data<T>() : nullptr;
}

}  // namespace

void cpu_device::softmax_loss(double smoothing, const tensor& weights, const tensor& x, const tensor& labels, tensor& probability,
                              tensor& loss) {
  assert(!weights || weights.count() == x.dims().count_from(1));
  run("softmax_loss", x, [&](const auto& k, auto v) {
    using T = decltype(v);
    *out<T>(loss) = static_cast<T>(k.softmax_loss(smoothing, values_or_null<T>(weights), x.dims()[0], x.dims().count_from(1),
                                                  x.data<T>(), labels.data<std::int32_t>(), out<T>(probability)));
  });
}

void cpu_device::softmax_loss_backward(double smoothing, const tensor& weights, const tensor& probability, const tensor& labels,
                                       const tensor& dloss, tensor& dx) {
  assert(!weights || weights.count() == probability.dims().count_from(1));
  run("softmax_loss", dx, [&](const auto& k, auto v) {
    using T = decltype(v);
    k.softmax_loss_backward(smoothing, values_or_null<T>(weights), probability.dims()[0], probability.dims().count_from(1),
                            *dloss.data<T>(), probability.data<T>(), labels.data<std::int32_t>(), out<T>(dx));
  });
}

void cpu_device::softmax(i64 outer, i64 classes, i64 inner, const tensor& x, tensor& y) {
  assert(x.count() == outer * classes * inner && y.count() == x.count());
  run("softmax", y, [&](const auto& k, auto v) { k.softmax(outer, classes, inner, x.data<decltype(v)>(), out<decltype(v)>(y)); });
}

void cpu_device::softmax_backward(i64 outer, i64 classes, i64 inner, const tensor& y, const tensor& dy, tensor& dx) {
  assert(y.count() == outer * classes * inner && dy.count() == y.count() && dx.count() == y.count());
  run("softmax", dx, [&](const auto& k, auto v) {
    using T = decltype(v);
    k.softmax_backward(outer, classes, inner, y.data<T>(), dy.data<T>(), out<T>(dx));
  });
}

void cpu_device::pointwise_loss(pointwise f, const tensor& x, const tensor& targets, tensor& slope, tensor& loss) {
  const bool labels = targets.type() == dtype::i32;
  const i64 rows = x.dims()[0];
  assert(slope.count() == x.count() && targets.count() == (labels ? rows : x.count()));
  run("pointwise_loss", x, [&](const auto& k, auto v) {
    using T = decltype(v);
    *out<T>(loss) = static_cast<T>(k.pointwise_loss(static_cast<int>(f), rows, x.dims().count_from(1), x.data<T>(),
                                                    labels ? nullptr : targets.data<T>(),
                                                    labels ? targets.data<std::int32_t>() : nullptr, out<T>(slope)));
  });
}

void cpu_device::top_k(i64 count, const tensor& x, const tensor& labels, tensor& z) {
  run("top_k", x, [&](const auto& k, auto v) {
    using T = decltype(v);
    *out<T>(z) = static_cast<T>(k.top_k(count, x.dims()[0], x.dims().count_from(1), x.data<T>(), labels.data<std::int32_t>()));
  });
}

}  // namespace troupe::cpu
