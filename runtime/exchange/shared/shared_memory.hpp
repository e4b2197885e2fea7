// Arrays that processes of one machine share: Hogwild (Niu et al. 2011) for training loops that are
// not Troupe's. A daemon makes the memory (shared_file), its clients map it (shared_array) and
// read, write and add there without asking anybody.
//
//   memory     one memfd: a head of one page (what it is, a lock), then `count` float32 or float64. Its pages are reserved when it is
//              made (at most three quarters of what the machine has free) and it is sealed against growing and shrinking, so that touching
//              it never fails.
//   values     as in actors/shell/param_store.hpp: every element is loaded and stored by itself with relaxed atomics, so none is torn; load
//              + add + store is not one step, so additions can be lost. Whoever takes the lock excludes the others who take it.
//   the lock   a robust mutex in the head. It goes back when its holder dies, and the next to take it is told so.
//
// How a client gets it: it has asked over its TLS session, and opens the daemon's file
// (memory_file.hpp). Who cannot is refused with a sentence. A random token in the head must be what
// the daemon said.
//
// Threads: all functions of shared_array may be called from any; a lock is given back by the thread
// that took it.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "runtime/exchange/hub/message.hpp"
#include "runtime/node/memory_file/memory_file.hpp"

namespace troupe::exchange {

// The daemon's end: keeps the memory while it lives. It never looks at the values, so that no
// client can harm it by them.
class shared_file {
 public:
  static std::optional<shared_file> make(element type, std::uint64_t count, std::string& why);

  void say_where(shared_at& a) const;  // fills in all but call, id and now

 private:
  shared_file(memory_file::descriptor f, std::uint64_t token) : file_(std::move(f)), token_(token) {}
  memory_file::descriptor file_;
  std::uint64_t token_;
};

enum class taken : std::uint8_t {
  yes,
  late,      // somebody else held it until the deadline
  orphaned,  // its holder has died: nobody holds it now, and what the holder was writing may be there by half
  broken     // somebody has written over it
};

class shared_array {
 public:
  using deadline = std::chrono::steady_clock::time_point;

  // Null, and why: not this machine, not this user, or not what the daemon said.
  static std::unique_ptr<shared_array> map(const shared_at& where, element type, std::uint64_t count, std::string& why);
  ~shared_array();
  shared_array(const shared_array&) = delete;
  shared_array& operator=(const shared_array&) = delete;

  taken lock(deadline until);
  void unlock();

  // For who arranges by itself who touches what, when; aligned to a page.
  void* values() const;

  // On `count` values each.
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
