// Update rules.
#include "ops/cuda/kernels/update.hpp"
#include "ops/cuda/stream.hpp"

namespace troupe::cuda {

void stream::sgd_update(const sgd_spec& s, const tensor& w, const tensor& g, const tensor& v, tensor& w_out, tensor& v_out) {
  operation o(*this);
  by_type(w.type(), [&](auto zero) {
    using T = decltype(zero);
    kernels::sgd_update(o, s, w.count(), o.in<T>(w), o.in<T>(g), o.in<T>(v), o.out<T>(w_out), o.out<T>(v_out));
  });
}

void stream::adaptive_update(const adaptive_spec& s, const tensor& w, const tensor& g, const tensors& states, tensor& w_out,
                             tensors& states_out) {
  operation o(*this);
  by_type(w.type(), [&](auto zero) {
    using T = decltype(zero);
    std::array<const T*, 3> from{};
    std::array<T*, 3> to{};
    for (std::size_t i = 0; i < states.size(); ++i) from.at(i) = o.in<T>(states[i]), to.at(i) = o.out<T>(states_out[i]);
    kernels::adaptive_update(o, s, w.count(), o.in<T>(w), o.in<T>(g), from, o.out<T>(w_out), to);
  });
}

}  // namespace troupe::cuda
