// Tensor: a shape and dtype over reference-counted storage that comes from a device's pool. Copying
// a tensor copies the handle. Three states:
//   empty     no shape, no storage; `!t`
//   declared  shape and dtype, no storage: what a role hands on before (or, with `--maths none`, without) the maths
//   backed    storage present
// Once a tensor has been sent it is immutable: `freeze()` marks the storage, and mutable access to frozen storage asserts.
// Threads: handles are values; storage may be read by many threads, written by one before it is
// sent.
#pragma once

#include <atomic>
#include <cassert>
#include <cstddef>
#include <memory>
#include <utility>

#include "ops/dtype.hpp"
#include "ops/memory_space.hpp"
#include "ops/shape.hpp"

namespace troupe {

class device;

// One block of memory. Returned to its owner's pool when the last handle drops.
struct storage {
  std::byte* data = nullptr;
  std::size_t bytes = 0;
  bool frozen = false;
  bool foreign = false;  // memory that is not ours to reuse (borrowed, adopted)
  memory_space space{};
  std::shared_ptr<completion> ready;  // of who wrote it last; null: it is there
};

class tensor {
 public:
  tensor() = default;

  // Shape and dtype without memory.
  static tensor declare(shape s, dtype t) {
    tensor x;
    x.shape_ = s;
    x.dtype_ = t;
    x.present_ = true;
    return x;
  }
  // Uninitialised memory from the device's pool (defined in device.cpp).
  static tensor allocate(device& d, shape s, dtype t);
  // A view of memory the caller owns and keeps alive (ops as a library, mapped files).
  static tensor borrow(void* data, shape s, dtype t);
  // A frozen view of memory that lives as long as `owner` does (a received frame, a file in
  // memory); any handle keeps it alive.
  static tensor adopt(std::shared_ptr<const void> owner, const void* data, shape s, dtype t) {
    struct held final : storage {
      std::shared_ptr<const void> owner;
    };
    tensor x = declare(s, t);
    auto view = std::make_shared<held>();
    view->data = static_cast<std::byte*>(const_cast<void*>(data));  // never written: frozen
    view->bytes = x.bytes();
    view->frozen = view->foreign = true;
    view->owner = std::move(owner);
    x.storage_ = std::move(view);
    return x;
  }
  // Keeps the memory alive without the tensor (a payload on its way to a socket). Null when not
  // backed.
  std::shared_ptr<const void> owner() const { return storage_; }

  explicit operator bool() const { return present_; }
  bool backed() const { return storage_ != nullptr; }
  const shape& dims() const { return shape_; }
  dtype type() const { return dtype_; }
  std::int64_t count() const { return shape_.count(); }
  std::size_t bytes() const { return static_cast<std::size_t>(count()) * size_of(dtype_); }

  // Gives a declared tensor its memory; keeps memory it already has.
  void back(device& d);

  // The one door to memory, and it is the host's: what lies elsewhere is a device's matter
  // (memory_space.hpp).
  const void* raw() const {
    assert(storage_ != nullptr && storage_->space.host());
    return storage_->data + offset_;
  }
  void* raw_mutable() {
    assert(storage_ != nullptr && !storage_->frozen && storage_->space.host());
    return storage_->data + offset_;
  }
  template <class T>
  const T* data() const {
    if (dtype_of<T> != dtype_) [[unlikely]]
      misread(dtype_of<T>);
    return static_cast<const T*>(raw());
  }
  template <class T>
  T* mutable_data() {
    if (dtype_of<T> != dtype_) [[unlikely]]
      misread(dtype_of<T>);
    return static_cast<T*>(raw_mutable());
  }

  // Gives a declared tensor the memory of another one of its shape and type, which is then declared
  // only. Touches nothing but where the memory is: what either tensor is may be read on another
  // thread meanwhile.
  void take_memory(tensor& other) {
    assert(present_ && shape_ == other.shape_ && dtype_ == other.dtype_);
    storage_ = std::move(other.storage_);
    offset_ = other.offset_;
    other.let_go();
  }

  // Same memory, other shape of equal count.
  tensor reshaped(shape s) const {
    assert(s.count() == count());
    tensor x = *this;
    x.shape_ = s;
    return x;
  }
  // Same memory: elements [begin, begin + s.count()) of the flattened tensor as shape s.
  tensor slice(std::int64_t begin, shape s) const {
    assert(begin >= 0 && begin + s.count() <= count());
    tensor x = *this;
    x.shape_ = s;
    x.offset_ += static_cast<std::size_t>(begin) * size_of(dtype_);
    return x;
  }

  void freeze() {
    if (storage_) storage_->frozen = true;
  }
  memory_space space() const { return storage_ ? storage_->space : memory_space{}; }
  // For devices: the block behind it, and where in it the tensor begins.
  const std::shared_ptr<storage>& block() const { return storage_; }
  std::size_t offset() const { return offset_; }
  // A view of `block` from `offset` on (devices and tests).
  static tensor view(std::shared_ptr<storage> block, std::size_t offset, shape s, dtype t) {
    tensor x = declare(s, t);
    x.storage_ = std::move(block);
    x.offset_ = offset;
    return x;
  }

  // True when no other handle sees this storage: then it may be written again, sent or not. For
  // sums that reuse an addend's memory.
  bool reclaim() {
    if (!storage_ || storage_->foreign || storage_.use_count() != 1) return false;
      // What the last other holder read is read before we write.
#if defined(__SANITIZE_THREAD__)
    (void)std::shared_ptr<storage>(storage_);  // TSan knows no fences; counting up and down again acquires in a way that it sees
#else
    std::atomic_thread_fence(std::memory_order_acquire);
#endif
    storage_->frozen = false;
    return true;
  }
  bool frozen() const { return storage_ && storage_->frozen; }
  // Declared again: what it was is known, and the memory goes to whoever else has a handle, or back
  // to the pool.
  void let_go() {
    storage_.reset();
    offset_ = 0;
  }
  // All of its storage, and no part of it.
  bool whole() const { return storage_ && storage_->bytes == bytes(); }
  bool same_storage(const tensor& o) const { return storage_ == o.storage_; }

 private:
  [[noreturn, gnu::cold]] void misread(dtype as) const;  // throws std::logic_error, in every build

  std::shared_ptr<storage> storage_;
  std::size_t offset_ = 0;  // bytes
  shape shape_;
  dtype dtype_ = dtype::f32;
  bool present_ = false;
};

using tensors = std::vector<tensor>;

}  // namespace troupe
