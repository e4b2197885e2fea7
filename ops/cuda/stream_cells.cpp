// Recurrent cells.
#include "ops/cuda/kernels/cell.hpp"
#include "ops/cuda/stream.hpp"

namespace troupe::cuda {

void stream::cell_forward(const cell_spec& s, const tensor& bias, tensor& gates, const tensor& h_before, const tensor& c_before,
                          tensor& c, tensor& h, tensor& y) {
  operation o(*this);
  by_type(gates.type(), [&](auto v) {
    using T = decltype(v);
    kernels::cell_forward(o, s, o.in<T>(bias), o.out<T>(gates), o.in<T>(h_before), o.in<T>(c_before), o.out<T>(c), o.out<T>(h),
                          o.out<T>(y));
  });
}

void stream::cell_backward(const cell_spec& s, const tensor& gates, const tensor& h_before, const tensor& h, const tensor& c_before,
                           const tensor& c, const tensor& dy, tensor& dh, tensor& dc, tensor& dgates) {
  operation o(*this);
  by_type(dgates.type(), [&](auto v) {
    using T = decltype(v);
    kernels::cell_backward(o, s, o.in<T>(gates), o.in<T>(h_before), o.in<T>(h), o.in<T>(c_before), o.in<T>(c), o.in<T>(dy),
                           o.out<T>(dh), o.out<T>(dc), o.out<T>(dgates));
  });
}

}  // namespace troupe::cuda
