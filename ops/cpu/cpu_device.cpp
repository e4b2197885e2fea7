#include "ops/cpu/cpu_device.hpp"

#include <cblas-openblas.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "ops/cpu/bf16_device.hpp"
#include "ops/cpu/conv.hpp"
#include "ops/cpu/int8_rows.hpp"
#include "ops/cpu/onednn.hpp"

namespace troupe {
namespace cpu {

[[noreturn]] void unsupported(const char* what, dtype t) {
  std::fprintf(stderr, "troupe cpu device: %s of %s is not supported\n", what, name_of(t));
  std::abort();
}

cpu_device::cpu_device(const kernel_set& set, bool tiles) : set_(set), tiles_(tiles) { openblas_set_num_threads(1); }

std::string cpu_device::numerics_id() const {
  const auto onednn = onednn_id();
  return std::string("openblas-") + openblas_get_corename() + "/" + set_.isa + "/" + conv_table_id +
         (onednn.empty() ? "" : "/" + onednn);
}

void cpu_device::fill(double value, tensor& t) {
  if (t.type() == dtype::i32) {
    for (auto *p = t.mutable_data<std::int32_t>(), *end = p + t.count(); p != end; ++p) *p = static_cast<std::int32_t>(value);
    return;
  }
  run("fill", t, [&](const auto& k, auto v) { k.fill(t.count(), static_cast<decltype(v)>(value), out<decltype(v)>(t)); });
}

void cpu_device::copy(const tensor& from, tensor& to) {
  assert(from.count() == to.count());
  if (from.type() == to.type()) {
    std::memcpy(to.raw_mutable(), from.raw(), from.bytes());
  } else {
    run("conversion", to, [&](const auto&, auto v) { convert(from, out<decltype(v)>(to)); });
  }
}

void cpu_device::copy_block(const block& b, const tensor& from, tensor& to) {
  assert(from.type() == to.type());
  const auto size = static_cast<i64>(size_of(from.type()));
  const auto* source = static_cast<const std::byte*>(from.raw()) + b.from_offset * size;
  auto* target = static_cast<std::byte*>(to.raw_mutable()) + b.to_offset * size;
  for (i64 r = 0; r < b.rows; ++r)
    std::memcpy(target + r * b.to_stride * size, source + r * b.from_stride * size, static_cast<std::size_t>(b.length * size));
}

void cpu_device::gather_rows(const tensor& table, const tensor& ids, tensor& z) {
  const auto v = table.dims()[0], length = table.dims().count_from(1);
  assert(z.count() == ids.count() * length);
  run("gather_rows", z, [&](const auto& k, auto zero) {
    using T = decltype(zero);
    k.gather_rows(ids.count(), v, length, table.data<T>(), ids.data<std::int32_t>(), out<T>(z));
  });
}

void cpu_device::scatter_rows(const tensor& x, const tensor& ids, tensor& table) {
  const auto v = table.dims()[0], length = table.dims().count_from(1);
  assert(x.count() == ids.count() * length);
  run("scatter_rows", table, [&](const auto& k, auto zero) {
    using T = decltype(zero);
    k.scatter_rows(ids.count(), v, length, x.data<T>(), ids.data<std::int32_t>(), out<T>(table));
  });
}

void cpu_device::resample(const resample_geometry& g, const tensor& x, tensor& y) {
  assert(x.count() == g.outer * g.in * g.inner && y.count() == g.outer * g.out * g.inner);
  run("resample", y, [&](const auto& k, auto v) { k.resample(g, x.data<decltype(v)>(), out<decltype(v)>(y)); });
}

void cpu_device::resample_backward(const resample_geometry& g, const tensor& dy, tensor& dx) {
  assert(dx.count() == g.outer * g.in * g.inner && dy.count() == g.outer * g.out * g.inner);
  run("resample", dx, [&](const auto& k, auto v) { k.resample_backward(g, dy.data<decltype(v)>(), out<decltype(v)>(dx)); });
}

void cpu_device::to_int8(const tensor& x, tensor& bytes) {
  x.type() == dtype::f64 ? rows_to_int8<double>(x, bytes) : rows_to_int8<float>(x, bytes);
}

void cpu_device::from_int8(const tensor& bytes, tensor& x) {
  x.type() == dtype::f64 ? rows_from_int8<double>(bytes, x) : rows_from_int8<float>(bytes, x);
}

}  // namespace cpu

std::unique_ptr<device> make_cpu_device(const std::string& isa) {
  const auto make = [](const cpu::kernel_set& set, const cpu::amx_kernels* tiles) {
    return cpu::with_bf16(std::make_unique<cpu::cpu_device>(set, tiles != nullptr), set.bf16, tiles);
  };
  if (cpu::kernels_v4() && cpu::amx() && (isa.empty() || isa == "x86-64-v4-amx")) return make(*cpu::kernels_v4(), cpu::amx());
  for (const cpu::kernel_set* set : {cpu::kernels_v4(), cpu::kernels_v3(), cpu::kernels_baseline()})
    if (set != nullptr && (isa.empty() || isa == set->isa)) return make(*set, nullptr);
  return nullptr;
}

}  // namespace troupe
