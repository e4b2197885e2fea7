// Arrays that processes of one machine share: Hogwild (Niu et al. 2011) for training loops outside
// Troupe. A daemon creates the memory (shared_file). Its clients map it (shared_array) and read,
// write and add without sending a message.
//
//   memory     one memfd: a header page (type, length, token, lock), then `count` float32 or
//              float64. Its pages are reserved when it is created (at most three quarters of the
//              machine's free memory), and it is sealed against growing and shrinking, so that
//              touching it never fails.
//   values     as in actors/shell/param_store.hpp: every element is loaded and stored with relaxed
//              atomics, so none is torn. load + add + store is not one step, so additions can be
//              lost. The lock excludes only callers that take it.
//   lock       a robust mutex in the header. It is released when its holder dies, and the next
//              caller that takes it is notified (`orphaned`).
//
// Access: a client asks over its TLS session and opens the daemon's file (memory_file.hpp). A
// client that cannot open it gets an error text. A random token in the header must match the
// daemon's message.
//
// Threads: all functions of shared_array may be called from any thread. The thread that took a lock
// must release it.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "runtime/base/result.hpp"
#include "runtime/exchange/hub/message.hpp"
#include "runtime/node/memory_file/memory_file.hpp"

namespace troupe::exchange {

// The daemon's end: owns the memory. It never reads the values, so that no client can harm it by
// them.
class shared_file {
 public:
  static expected<shared_file> make(element type, std::uint64_t count);

  void say_where(shared_at& a) const;  // sets all fields but call, id and now

 private:
  shared_file(memory_file::descriptor f, std::uint64_t token) : file_(std::move(f)), token_(token) {}
  memory_file::descriptor file_;
  std::uint64_t token_;
};

enum class taken : std::uint8_t {
  yes,
  late,      // another thread or process held it until the deadline
  orphaned,  // its holder has died; the lock is free now, and the holder's last write may be incomplete
  broken     // its memory is damaged
};

class shared_array {
 public:
  using deadline = std::chrono::steady_clock::time_point;

  // An error if the memory is on another machine, of another user, or does not match the daemon's
  // message.
  static expected<std::unique_ptr<shared_array>> map(const shared_at& where, element type, std::uint64_t count);
  ~shared_array();
  shared_array(const shared_array&) = delete;
  shared_array& operator=(const shared_array&) = delete;

  taken lock(deadline until);
  void unlock();

  // For callers that synchronise by other means; aligned to a page.
  void* values() const;

  // Each works on all `count` values.
  void read(void* into) const;
  void write(const void* from);
  void add(const void* delta, double scale);  // += scale * delta

 private:
  shared_array(void* at, element type, std::uint64_t count) : at_(at), type_(type), count_(count) {}
  template <class F>
  void each(F f) const;

  void* at_;
  element type_;
  std::uint64_t count_;
};

}  // namespace troupe::exchange
