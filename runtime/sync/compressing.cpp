#include "runtime/sync/compressing.hpp"

#include <cstring>

#include "ops/device.hpp"
#include "runtime/reduce/codec.hpp"

namespace troupe {
namespace {

// Returns `t` in host memory, downloaded if necessary.
tensor at_home(device& d, const tensor& t) {
  if (t.space().host()) return t;
  auto here = tensor::allocate(d.host(), t.dims(), t.type());
  d.download(t, here.raw_mutable());
  return here;
}

template <class T>
tensor encoded(device& d, const codec_spec& c, const tensor& sum, tensor& residual) {
  if (!residual) {
    residual = tensor::allocate(d.host(), sum.dims(), sum.type());
    std::memset(residual.raw_mutable(), 0, residual.bytes());
  }
  const auto bytes = encode(c, sum.data<T>(), residual.mutable_data<T>(), sum.count());
  auto t = tensor::allocate(d.host(), {static_cast<std::int64_t>(bytes.size())}, dtype::u8);
  std::memcpy(t.raw_mutable(), bytes.data(), bytes.size());
  return t;
}

template <class T>
bool decoded(const codec_spec& c, const tensor& from, tensor& to) {
  const auto* bytes = static_cast<const std::byte*>(from.raw());
  return decode(c, bytes, from.bytes(), to.mutable_data<T>(), to.count());
}

}  // namespace

void encoded_pushes::add(const codec_spec& c, envelope e, residuals& kept) {
  auto& p = std::get<push>(e.body);
  auto& residual = kept[{p.block, p.first}];
  if (!residual) residual = std::make_shared<tensor>();
  auto sum = p.sum;
  p.sum = tensor::declare({encoded_bytes(c, sum.count(), sum.type())}, dtype::u8);
  list.push_back({c, std::move(e), std::move(sum), residual});
}

// Five passes over memory: reads the sum and the residual, writes the encoding and the new
// residual, and reads the encoding to compute the latter.
task_cost encoded_pushes::cost() const {
  double bytes = 0;
  for (const auto& e : list) bytes += 5.0 * static_cast<double>(e.sum.bytes());
  return {0, bytes, "encode"};
}

void encoded_pushes::encode(device& d) {
  for (auto& e : list) {
    const auto sum = at_home(d, e.sum);
    auto& to = std::get<push>(e.sent.body).sum;
    to = sum.type() == dtype::f64 ? encoded<double>(d, e.codec, sum, *e.residual) : encoded<float>(d, e.codec, sum, *e.residual);
    e.sum = {};
  }
}

bool may_be_encoded(const codec_spec& c, const tensor& t, std::int64_t n, dtype type) {
  if (!t || t.type() != dtype::u8) return false;
  const auto most = encoded_bytes(c, n, type);
  return c.kind == codec_kind::threshold ? t.count() <= most : t.count() == most;
}

task_cost encoded_block::cost() const { return {0, 2.0 * static_cast<double>(value.bytes()), "decode"}; }

void encoded_block::decode(device& d) {
  const auto from = at_home(d, bytes);
  bytes = {};
  value = tensor::allocate(d, value.dims(), value.type());
  auto here = value.space().host() ? value : tensor::allocate(d.host(), value.dims(), value.type());
  wrong = !(value.type() == dtype::f64 ? decoded<double>(codec, from, here) : decoded<float>(codec, from, here));
  if (!wrong && !value.space().host()) d.upload(here.raw(), value);
}

}  // namespace troupe
