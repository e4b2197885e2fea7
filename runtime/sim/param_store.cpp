#include "runtime/sim/param_store.hpp"

#include <algorithm>
#include <utility>

#include "ops/device.hpp"

namespace troupe::sim {

std::uint32_t param_store::chunks_of(std::int64_t count) {
  return static_cast<std::uint32_t>(std::clamp<std::int64_t>((count + chunk_elements - 1) / chunk_elements, 1, max_chunks));
}

param_store::range param_store::chunk(const array& b, std::uint32_t k) {
  const auto n = static_cast<std::int64_t>(b.writes.size());
  const auto begin = b.count * k / n;
  return {begin, b.count * (k + 1) / n - begin};
}

std::uint32_t param_store::begin(kind what, std::uint32_t block, std::shared_ptr<tensor> value) {
  std::uint32_t at = 0;
  if (free_.empty()) {
    at = static_cast<std::uint32_t>(operations_.size());
    operations_.emplace_back();
  } else {
    at = free_.back();
    free_.pop_back();
  }
  operations_[at] = {what, block, std::move(value), 0, {}, 0};
  return at;
}

std::uint32_t param_store::moments(std::uint32_t operation) const { return chunks_of(operations_[operation].value->count()) + 1; }

// A block that has not been written yet is all zeros.
param_store::array& param_store::block_of(const pending& o, device* dev) {
  auto& b = blocks_[o.block];
  if (b.writes.empty()) {
    b.count = o.value->count();
    b.writes.assign(chunks_of(b.count), 0);
    if (dev) {
      b.value = tensor::allocate(*dev, {b.count}, o.value->type());
      dev->fill(0, b.value);
    }
  }
  return b;
}

bool param_store::advance(std::uint32_t operation, device* dev) {
  auto& o = operations_[operation];
  auto& b = block_of(o, dev);
  const auto chunks = static_cast<std::uint32_t>(b.writes.size());
  if (o.moment > 0) store(o, b, o.moment - 1, dev);
  if (o.moment < chunks) {
    load(o, b, o.moment, dev);
    ++o.moment;
    return false;
  }
  o = {};
  free_.push_back(operation);
  return true;
}

void param_store::load(pending& o, array& b, std::uint32_t k, device* dev) {
  const auto r = chunk(b, k);
  o.seen = b.writes[k];
  if (!dev || r.count == 0) return;
  if (o.what == kind::add) {
    o.loaded = tensor::allocate(*dev, {r.count}, b.value.type());
    dev->copy(b.value.slice(r.begin, {r.count}), o.loaded);
  } else if (o.what == kind::read) {
    o.value->back(*dev);
    auto into = o.value->slice(r.begin, {r.count});
    dev->copy(b.value.slice(r.begin, {r.count}), into);
  }
}

void param_store::store(pending& o, array& b, std::uint32_t k, device* dev) {
  if (o.what == kind::read) return;
  const auto r = chunk(b, k);
  if (o.what == kind::add) {
    ++additions_;
    lost_ += b.writes[k] - o.seen;
  }
  ++b.writes[k];
  if (!dev || r.count == 0) return;
  auto into = b.value.slice(r.begin, {r.count});
  const auto given = o.value->slice(r.begin, {r.count});
  if (o.what == kind::write) return dev->copy(given, into);
  dev->axpy(1.0, given, o.loaded);
  dev->copy(o.loaded, into);
}

}  // namespace troupe::sim
