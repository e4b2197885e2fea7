#include "actors/shell/param_store.hpp"

#include <stdexcept>

#include "ops/device.hpp"

namespace troupe {
namespace {

template <class T, class F>
void each(const tensor& t, F&& f) {
  auto* p = static_cast<T*>(const_cast<void*>(t.raw()));
  const auto n = t.count();
  for (std::int64_t i = 0; i < n; ++i) f(p[i], i);
}

template <class F>
void typed(dtype t, F&& f) {
  if (t == dtype::f64)
    f(double{});
  else
    f(float{});
}

}  // namespace

struct param_store::block {
  tensor value;  // its memory is only accessed through atomic_ref
};

struct param_store::page {
  std::atomic<block*> at[page_size] = {};
  ~page() {
    for (auto& b : at) delete b.load();
  }
};

param_store::~param_store() {
  for (auto& p : pages_) delete p.load();
}

param_store::block* param_store::find(std::uint32_t id) const {
  if (id >= max_blocks) return nullptr;
  const auto* p = pages_[id / page_size].load(std::memory_order_acquire);
  return p ? p->at[id % page_size].load(std::memory_order_acquire) : nullptr;
}

param_store::block& param_store::create(std::uint32_t id, const tensor& like) {
  if (auto* b = find(id)) return *b;
  if (id >= max_blocks) throw std::out_of_range("param_store: block " + std::to_string(id));
  std::lock_guard guard(lock_);
  auto& p = pages_[id / page_size];
  if (!p.load()) p.store(new page, std::memory_order_release);
  auto& slot = p.load()->at[id % page_size];
  if (!slot.load()) {
    auto made = std::make_unique<block>();
    auto memory = std::make_shared<std::unique_ptr<std::byte[]>>(std::make_unique<std::byte[]>(like.bytes() + 64));
    void* at = memory->get();
    std::size_t room = like.bytes() + 64;
    std::align(64, like.bytes(), at, room);
    made->value = tensor::adopt(memory, at, {like.count()}, like.type());
    slot.store(made.release(), std::memory_order_release);
  }
  return *slot.load();
}

void param_store::perform(shared_effect& e, device& dev) {
  auto& value = *e.value;
  if (e.kind == shared_effect::kind_of::write) create(e.block, value);
  auto* b = find(e.block);
  if (!b || b->value.count() != value.count() || b->value.type() != value.type())
    throw std::logic_error("param_store: block " + std::to_string(e.block) + " was not written, or has another size or type");
  if (e.kind == shared_effect::kind_of::read) value.back(dev);
  typed(b->value.type(), [&]<class T>(T) {
    auto* shared = static_cast<T*>(const_cast<void*>(b->value.raw()));
    constexpr auto relaxed = std::memory_order_relaxed;
    each<T>(value, [&](T& mine, std::int64_t i) {
      std::atomic_ref<T> there(shared[i]);
      switch (e.kind) {
        case shared_effect::kind_of::read: mine = there.load(relaxed); break;
        case shared_effect::kind_of::add: there.store(there.load(relaxed) + mine, relaxed); break;
        case shared_effect::kind_of::write: there.store(mine, relaxed); break;
      }
    });
  });
}

}  // namespace troupe
