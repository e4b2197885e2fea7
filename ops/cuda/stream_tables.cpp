// Copies within the device, and rows by index.
#include "ops/cuda/kernels/convert.hpp"
#include "ops/cuda/kernels/table.hpp"
#include "ops/cuda/stream.hpp"

namespace troupe::cuda {
namespace {

// The tables of a resample in device memory. The caller's are read before this returns.
struct device_tables {
  device_tables(operation& o, const resample_geometry& g) {
    const auto n = static_cast<std::size_t>(g.out * g.taps);
    index = static_cast<const std::int32_t*>(o.constant(g.index, n * sizeof(std::int32_t)));
    weight = static_cast<const double*>(o.constant(g.weight, n * sizeof(double)));
  }
  const std::int32_t* index;
  const double* weight;
};

}  // namespace

void stream::copy(const tensor& from, tensor& to) {
  if (to.count() == 0) return;
  operation o(*this);
  kernels::copy(o, from.type(), to.type(), to.count(), o.address_in(from), o.address_out(to));
}

void stream::copy_block(const block& b, const tensor& from, tensor& to) {
  if (from.type() != to.type()) {
    const shape dense{b.rows * b.length};
    tensor taken = tensor::allocate(*this, dense, from.type()), made = tensor::allocate(*this, dense, to.type());
    copy_block({b.rows, b.length, b.from_offset, b.from_stride, 0, b.length}, from, taken);
    copy(taken, made);
    return copy_block({b.rows, b.length, 0, b.length, b.to_offset, b.to_stride}, made, to);
  }
  operation o(*this);
  kernels::copy_block(o, size_of(to.type()), b, o.address_in(from), o.address_out(to));
}

void stream::gather_rows(const tensor& table, const tensor& ids, tensor& out) {
  operation o(*this);
  by_type(out.type(), [&](auto v) {
    using T = decltype(v);
    kernels::gather_rows(o, ids.count(), table.dims()[0], table.dims().count_from(1), o.in<T>(table), o.in<std::int32_t>(ids),
                         o.out<T>(out));
  });
}

void stream::scatter_rows(const tensor& x, const tensor& ids, tensor& table) {
  operation o(*this);
  by_type(table.type(), [&](auto v) {
    using T = decltype(v);
    kernels::scatter_rows(o, ids.count(), table.dims()[0], table.dims().count_from(1), o.in<T>(x), o.in<std::int32_t>(ids),
                          o.out<T>(table));
  });
}

void stream::to_int8(const tensor& x, tensor& bytes) {
  operation o(*this);
  by_type(x.type(), [&](auto v) {
    kernels::to_int8(o, x.dims()[0], x.dims().count_from(1), o.in<decltype(v)>(x), o.out<std::uint8_t>(bytes));
  });
}

void stream::from_int8(const tensor& bytes, tensor& x) {
  operation o(*this);
  by_type(x.type(), [&](auto v) {
    kernels::from_int8(o, x.dims()[0], x.dims().count_from(1), o.in<std::uint8_t>(bytes), o.out<decltype(v)>(x));
  });
}

void stream::resample(const resample_geometry& g, const tensor& x, tensor& y) {
  operation o(*this);
  const device_tables t(o, g);
  by_type(y.type(), [&](auto v) { kernels::resample(o, g, t.index, t.weight, o.in<decltype(v)>(x), o.out<decltype(v)>(y)); });
}

void stream::resample_backward(const resample_geometry& g, const tensor& dy, tensor& dx) {
  operation o(*this);
  const device_tables t(o, g);
  by_type(dx.type(),
          [&](auto v) { kernels::resample_backward(o, g, t.index, t.weight, o.in<decltype(v)>(dy), o.out<decltype(v)>(dx)); });
}

}  // namespace troupe::cuda
