// The CPU device: update rules.
#include "ops/cpu/cpu_device.hpp"

namespace troupe::cpu {

void cpu_device::sgd_update(const sgd_spec& s, const tensor& w, const tensor& g, const tensor& v, tensor& w_out, tensor& v_out) {
  assert(w.count() == g.count() && w.count() == w_out.count());
  run("sgd_update", w_out, [&](const auto& k, auto zero) {
    using T = decltype(zero);
    k.sgd(s, w.count(), w.data<T>(), g.data<T>(), static_cast<const T*>(optional_data(v)), out<T>(w_out),
          v_out ? out<T>(v_out) : nullptr);
  });
}

void cpu_device::adaptive_update(const adaptive_spec& s, const tensor& w, const tensor& g, const tensors& states, tensor& w_out,
                                 tensors& states_out) {
  constexpr std::size_t most = 3;
  assert(w.count() == g.count() && w.count() == w_out.count() && states.size() == states_out.size() && states.size() <= most);
  run("adaptive_update", w_out, [&](const auto& k, auto zero) {
    using T = decltype(zero);
    const T* from[most] = {};
    T* to[most] = {};
    for (std::size_t i = 0; i < states.size(); ++i) {
      assert(states[i].count() == w.count() && states_out[i].count() == w.count());
      from[i] = states[i].data<T>();
      to[i] = out<T>(states_out[i]);
    }
    k.adaptive(s, w.count(), w.data<T>(), g.data<T>(), from, out<T>(w_out), to);
  });
}

}  // namespace troupe::cpu
