#include "runtime/exchange/shared/shared_memory.hpp"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include "runtime/memory/process_memory.hpp"

namespace troupe::exchange {
namespace {

constexpr std::uint64_t head_bytes = 4096, magic = 0x3164656372616873;  // "shared1"
constexpr const char* file_name = "troupe_shared";

struct head {
  std::uint64_t magic, token, count;
  std::uint32_t type, lock_bytes;  // lock_bytes: of the maker, since another C library's lock may differ
  pthread_mutex_t lock;
};
static_assert(sizeof(head) <= head_bytes && std::atomic_ref<double>::is_always_lock_free);

head& head_of(void* at) { return *static_cast<head*>(at); }

// Initialises a lock that every process with the mapping may take and that survives its holder.
int make_lock(pthread_mutex_t& m) {
  pthread_mutexattr_t a;
  if (const int r = ::pthread_mutexattr_init(&a)) return r;
  int r = ::pthread_mutexattr_setpshared(&a, PTHREAD_PROCESS_SHARED);
  if (r == 0) r = ::pthread_mutexattr_setrobust(&a, PTHREAD_MUTEX_ROBUST);
  if (r == 0) r = ::pthread_mutex_init(&m, &a);
  ::pthread_mutexattr_destroy(&a);
  return r;
}

bool write_head(int fd, std::uint64_t token, element type, std::uint64_t count) {
  void* at = ::mmap(nullptr, head_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (at == MAP_FAILED) return false;
  auto& h = *new (at) head{magic, token, count, static_cast<std::uint32_t>(type), sizeof(pthread_mutex_t), {}};
  const int r = make_lock(h.lock);
  ::munmap(at, head_bytes);
  errno = r;
  return r == 0;
}

}  // namespace

expected<shared_file> shared_file::make(element type, std::uint64_t count) {
  const auto refused = [](const std::string& why) { return unexpected(error("the daemon cannot make this memory: " + why)); };
  const auto bytes = head_bytes + count * bytes_of(type);
  // A size above the free memory is rejected here: the kernel would grant it, and kill some process
  // when the pages are touched.
  if (const auto m = memory_of_this_process(); m.total > 0 && bytes > m.left - m.left / 4)
    return refused(std::to_string(bytes) + " bytes are more than three quarters of the " + std::to_string(m.left) +
                   " that are left: " + m.of + " " + std::to_string(m.total));
  // The pages are reserved now. A failure at first touch would kill the process that touches them.
  auto f = memory_file::make(file_name, bytes, memory_file::pages::reserved);
  if (!f) return refused(f.error().text);
  const auto token = memory_file::random_token();
  if (token == 0 || !write_head(f->get(), token, type, count) || !memory_file::seal(*f)) return refused(std::strerror(errno));
  return shared_file(*std::move(f), token);
}

void shared_file::say_where(shared_at& a) const {
  a.process = static_cast<std::uint32_t>(::getpid());
  a.descriptor = static_cast<std::uint32_t>(file_.get());
  a.token = token_;
  a.machine = memory_file::machine();
}

expected<std::unique_ptr<shared_array>> shared_array::map(const shared_at& where, element type, std::uint64_t count) {
  const auto refused = [](const std::string& why) {
    return unexpected(error("the daemon's memory cannot be shared with this process: " + why));
  };
  const auto bytes = head_bytes + count * bytes_of(type);
  const auto f = memory_file::open({where.machine, where.process, where.descriptor}, file_name, bytes,
                                   memory_file::access::read_write, "the daemon");
  if (!f) return refused(f.error().text);
  void* at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, f->get(), 0);
  if (at == MAP_FAILED) return refused(std::string("it cannot be mapped: ") + std::strerror(errno));
  ::madvise(at, bytes, MADV_DONTFORK);  // forked children must not use the session
  std::unique_ptr<shared_array> out(new shared_array(at, type, count));
  const auto& h = head_of(at);
  if (h.magic != magic || h.token != where.token || h.count != count || h.type != static_cast<std::uint32_t>(type) ||
      h.lock_bytes != sizeof(pthread_mutex_t))
    return refused("its header does not match the daemon's message");
  return out;
}

shared_array::~shared_array() { ::munmap(at_, head_bytes + count_ * bytes_of(type_)); }

taken shared_array::lock(deadline until) {
  const auto since = std::chrono::duration_cast<std::chrono::nanoseconds>(until.time_since_epoch()).count();
  const timespec t{static_cast<time_t>(since / 1'000'000'000), static_cast<long>(since % 1'000'000'000)};
  auto& m = head_of(at_).lock;
  const int r = ::pthread_mutex_clocklock(&m, CLOCK_MONOTONIC, &t);
  if (r == 0) return taken::yes;
  if (r == ETIMEDOUT) return taken::late;
  if (r != EOWNERDEAD) return taken::broken;
  ::pthread_mutex_consistent(&m);
  ::pthread_mutex_unlock(&m);
  return taken::orphaned;
}

void shared_array::unlock() { ::pthread_mutex_unlock(&head_of(at_).lock); }

void* shared_array::values() const { return static_cast<std::byte*>(at_) + head_bytes; }

template <class F>
void shared_array::each(F f) const {
  const auto run = [&]<class T>(T* there) {
    for (std::uint64_t k = 0; k < count_; ++k) f(std::atomic_ref<T>(there[k]), k);
  };
  auto* values = static_cast<std::byte*>(at_) + head_bytes;
  if (type_ == element::f32)
    run(reinterpret_cast<float*>(values));
  else
    run(reinterpret_cast<double*>(values));
}

void shared_array::read(void* into) const {
  each([&]<class T>(std::atomic_ref<T> there, std::uint64_t k) {
    static_cast<T*>(into)[k] = there.load(std::memory_order_relaxed);
  });
}

void shared_array::write(const void* from) {
  each([&]<class T>(std::atomic_ref<T> there, std::uint64_t k) {
    there.store(static_cast<const T*>(from)[k], std::memory_order_relaxed);
  });
}

void shared_array::add(const void* delta, double scale) {
  each([&]<class T>(std::atomic_ref<T> there, std::uint64_t k) {
    const T more = static_cast<T>(scale) * static_cast<const T*>(delta)[k];
    there.store(there.load(std::memory_order_relaxed) + more, std::memory_order_relaxed);
  });
}

}  // namespace troupe::exchange
