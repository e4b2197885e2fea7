// Tensor: a shape and an element type over reference-counted storage from a device's pool. Copying
// a tensor copies the handle. A tensor is in one of three states:
//   empty     no shape and no storage; `!t`
//   declared  shape and type without storage: before its values are computed, or with `--maths
//             none`
//   backed    with storage
// A sent tensor is immutable: `freeze()` marks the storage, and mutable access to it asserts.
// Threads: handles are values. Storage may be read by many threads, and written by one thread
// before it is sent.
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

// One block of memory. It returns to its pool when the last handle drops.
struct storage {
  std::byte* data = nullptr;
  std::size_t bytes = 0;
  bool frozen = false;
  bool foreign = false;  // borrowed or adopted memory, which must not be reused
  memory_space space{};
  std::shared_ptr<completion> ready;  // completion of the last write; null: complete
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
  // Uninitialised memory from the device's pool (defined in tensor.cpp).
  static tensor allocate(device& d, shape s, dtype t);
  // A view of memory that the caller owns and keeps alive (ops as a library, mapped files).
  static tensor borrow(void* data, shape s, dtype t);
  // A frozen view of memory that lives as long as `owner`, such as a received frame or a file in
  // memory. Every handle keeps the owner alive.
  static tensor adopt(std::shared_ptr<const void> owner, const void* data, shape s, dtype t) {
    struct held final : storage {
      std::shared_ptr<const void> owner;
    };
    tensor x = declare(s, t);
    auto view = std::make_shared<held>();
    view->data = static_cast<std::byte*>(const_cast<void*>(data));  // frozen, so never written
    view->bytes = x.bytes();
    view->frozen = view->foreign = true;
    view->owner = std::move(owner);
    x.storage_ = std::move(view);
    return x;
  }
  // Keeps the memory alive without the tensor, e.g. a payload that is being sent. Null if not
  // backed.
  std::shared_ptr<const void> owner() const { return storage_; }

  explicit operator bool() const { return present_; }
  bool backed() const { return storage_ != nullptr; }
  const shape& dims() const { return shape_; }
  dtype type() const { return dtype_; }
  std::int64_t count() const { return shape_.count(); }
  std::size_t bytes() const { return static_cast<std::size_t>(count()) * size_of(dtype_); }

  // Allocates memory for a declared tensor. A backed tensor keeps its memory.
  void back(device& d);

  // Access to the memory, which must be the host's: throws std::logic_error otherwise. Devices
  // access other memory (memory_space.hpp).
  const void* raw() const {
    assert(storage_ != nullptr);
    if (!storage_->space.host()) [[unlikely]]
      not_on_host();
    return storage_->data + offset_;
  }
  void* raw_mutable() {
    assert(storage_ != nullptr && !storage_->frozen);
    if (!storage_->space.host()) [[unlikely]]
      not_on_host();
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

  // Moves the memory of `other`, which has the same shape and type, to this tensor; `other` becomes
  // declared. Changes only the storage handles: another thread may read shape and type of both
  // tensors at the same time.
  void take_memory(tensor& other) {
    assert(present_ && shape_ == other.shape_ && dtype_ == other.dtype_);
    storage_ = std::move(other.storage_);
    offset_ = other.offset_;
    other.let_go();
  }

  // Same memory, another shape of equal count.
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
  // For devices: the storage block, and the offset of the tensor in it, in bytes.
  const std::shared_ptr<storage>& block() const { return storage_; }
  std::size_t offset() const { return offset_; }
  // A view of `block` from `offset` on, in bytes (for devices and tests).
  static tensor view(std::shared_ptr<storage> block, std::size_t offset, shape s, dtype t) {
    tensor x = declare(s, t);
    x.storage_ = std::move(block);
    x.offset_ = offset;
    return x;
  }

  // Makes the storage writable again if this is its only handle, even if it was sent. Returns false
  // otherwise. Used by sums that reuse the memory of an addend.
  bool reclaim() {
    if (!storage_ || storage_->foreign || storage_.use_count() != 1) return false;
      // Orders the reads of other, dropped handles before the writes of this thread.
#if defined(__SANITIZE_THREAD__)
    (void)std::shared_ptr<storage>(storage_);  // TSan does not model fences; it understands an acquire of the reference count
#else
    std::atomic_thread_fence(std::memory_order_acquire);
#endif
    storage_->frozen = false;
    return true;
  }
  bool frozen() const { return storage_ && storage_->frozen; }
  // Drops the memory; the tensor becomes declared. The memory stays with other handles or returns
  // to the pool.
  void let_go() {
    storage_.reset();
    offset_ = 0;
  }
  // Returns true if the tensor covers its whole storage.
  bool whole() const { return storage_ && storage_->bytes == bytes(); }
  bool same_storage(const tensor& o) const { return storage_ == o.storage_; }

 private:
  [[noreturn, gnu::cold]] void misread(dtype as) const;  // throws std::logic_error, in every build
  [[noreturn, gnu::cold]] void not_on_host() const;      // likewise

  std::shared_ptr<storage> storage_;
  std::size_t offset_ = 0;  // bytes
  shape shape_;
  dtype dtype_ = dtype::f32;
  bool present_ = false;
};

using tensors = std::vector<tensor>;

}  // namespace troupe
