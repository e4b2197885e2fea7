// Arrays that processes share: no torn values, no lost additions under the lock, a lock that
// survives the death of its holder, and the refusal of wrong memory.
#include "runtime/exchange/shared/shared_memory.hpp"
#include "tests/error_text.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <bit>
#include <functional>
#include <vector>

namespace troupe::exchange {
namespace {

using namespace std::chrono_literals;
using clock = std::chrono::steady_clock;

// Runs `body` in a child process, which writes a byte to its descriptor when it is ready.
struct child {
  pid_t pid = -1;
  int end = -1;
  explicit child(const std::function<int(int)>& body) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
    pid = ::fork();
    if (pid == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      ::_exit(body(ends[1]));
    }
    ::close(ends[1]);
    end = ends[0];
  }
  ~child() {
    ::close(end);
    if (pid > 0) kill_hard();
  }
  child(const child&) = delete;
  child& operator=(const child&) = delete;
  bool ready() const {
    char c = 0;
    return ::read(end, &c, 1) == 1;
  }
  void kill_hard() {
    ::kill(pid, SIGKILL);
    ::waitpid(std::exchange(pid, -1), nullptr, 0);
  }
  int join() {
    int status = 0;
    ::waitpid(std::exchange(pid, -1), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
};

class shared_memory : public ::testing::Test {
 protected:
  shared_memory() : file(*shared_file::make(element::f64, count)) { file->say_where(where); }
  std::unique_ptr<shared_array> map() {
    auto mapped = shared_array::map(where, element::f64, count);
    return mapped ? *std::move(mapped) : nullptr;
  }
  std::string refusal(const shared_at& at, element e = element::f64, std::uint64_t n = count) {
    return test::error_text(shared_array::map(at, e, n));
  }
  // Two processes add 1 to all values, `times` times each. Returns the final values.
  std::vector<double> added_by_two(bool locked, int times) {
    const auto body = [&](int) {
      const auto a = map();
      if (!a) return 1;
      const std::vector<double> one(count, 1);
      for (int i = 0; i < times; ++i) {
        if (locked && a->lock(clock::now() + 20s) != taken::yes) return 2;
        a->add(one.data(), 1);
        if (locked) a->unlock();
      }
      return 0;
    };
    child a(body), b(body);
    EXPECT_EQ(a.join(), 0);
    EXPECT_EQ(b.join(), 0);
    std::vector<double> sum(count);
    map()->read(sum.data());
    return sum;
  }

  static constexpr std::uint64_t count = 5000;
  std::optional<shared_file> file;
  shared_at where;
};

TEST_F(shared_memory, no_addition_of_two_processes_is_lost_under_the_lock) {
  for (const double v : added_by_two(true, 2000)) ASSERT_EQ(v, 4000);
}

TEST_F(shared_memory, additions_without_the_lock_may_be_lost_but_never_invented) {
  for (const double v : added_by_two(false, 2000)) {
    ASSERT_LE(v, 4000);
    ASSERT_GE(v, 1);
    ASSERT_EQ(v, static_cast<double>(static_cast<int>(v)));
  }
}

// Two processes write numbers that differ in every byte, while this process reads.
TEST_F(shared_memory, no_value_is_torn_by_concurrent_writers) {
  const double patterns[] = {std::bit_cast<double>(0x3132333435363738u), std::bit_cast<double>(0x4a4b4c4d4e4f5051u)};
  const auto mine = map();
  ASSERT_TRUE(mine);
  mine->write(std::vector<double>(count, patterns[0]).data());
  const auto writer = [&](int) {
    const auto a = map();
    const std::vector<double> v[] = {std::vector<double>(count, patterns[0]), std::vector<double>(count, patterns[1])};
    for (int i = 0; i < 4000; ++i) a->write(v[i % 2].data());
    return 0;
  };
  child a(writer), b(writer);
  std::vector<double> got(count);
  std::uint64_t seen[2] = {};
  for (int i = 0; i < 2000; ++i) {
    mine->read(got.data());
    for (const double v : got) {
      ASSERT_TRUE(v == patterns[0] || v == patterns[1]) << v;
      ++seen[v == patterns[1]];
    }
  }
  EXPECT_EQ(a.join(), 0);
  EXPECT_EQ(b.join(), 0);
  mine->read(got.data());
  EXPECT_EQ(got[0], patterns[1]);
}

TEST_F(shared_memory, add_scales_and_write_replaces) {
  const auto a = map(), b = map();
  std::vector<double> v(count);
  for (std::size_t k = 0; k < count; ++k) v[k] = static_cast<double>(k);
  a->write(v.data());
  b->add(v.data(), -0.5);
  std::vector<double> got(count);
  a->read(got.data());
  for (std::size_t k = 0; k < count; ++k) ASSERT_EQ(got[k], 0.5 * static_cast<double>(k));
  const auto small = shared_file::make(element::f32, 3);
  small->say_where(where);
  const auto mapped = shared_array::map(where, element::f32, 3);
  ASSERT_EQ(test::error_text(mapped), "");
  const auto& f = *mapped;
  const float one[] = {1, 2, 3};
  float out[3] = {9, 9, 9};
  f->read(out);
  EXPECT_EQ(out[2], 0) << "new memory is zero";
  f->add(one, 2);
  f->read(out);
  EXPECT_EQ(out[2], 6);
}

TEST_F(shared_memory, lock_waits_for_its_holder_until_the_deadline) {
  const auto a = map();
  child holder([&](int fd) {
    const auto mine = map();
    if (mine->lock(clock::now() + 20s) != taken::yes) return 1;
    (void)!::write(fd, "r", 1);
    ::pause();
    return 2;
  });
  ASSERT_TRUE(holder.ready());
  const auto begun = clock::now();
  EXPECT_EQ(a->lock(begun + 200ms), taken::late);
  EXPECT_GE(clock::now() - begun, 200ms);
  EXPECT_LT(clock::now() - begun, 5s);
  holder.kill_hard();
  EXPECT_EQ(a->lock(clock::now() + 20s), taken::orphaned) << "reported once";
  EXPECT_EQ(a->lock(clock::now() + 20s), taken::yes);
  a->unlock();
}

TEST_F(shared_memory, a_waiter_wakes_when_the_holder_dies) {
  child holder([&](int fd) {
    const auto mine = map();
    if (mine->lock(clock::now() + 20s) != taken::yes) return 1;
    (void)!::write(fd, "r", 1);
    ::pause();
    return 2;
  });
  ASSERT_TRUE(holder.ready());
  child waits([&](int fd) {
    const auto mine = map();
    (void)!::write(fd, "r", 1);
    return mine->lock(clock::now() + 20s) == taken::orphaned ? 0 : 1;
  });
  ASSERT_TRUE(waits.ready());
  holder.kill_hard();
  EXPECT_EQ(waits.join(), 0);
}

TEST_F(shared_memory, memory_that_does_not_match_the_daemons_is_refused) {
  auto at = where;
  at.machine = "00000000-0000-0000-0000-000000000000";
  EXPECT_NE(refusal(at).find("another machine"), std::string::npos);
  at.machine.clear();
  EXPECT_NE(refusal(at).find("another machine"), std::string::npos);
  at = where;
  at.token ^= 1;
  EXPECT_NE(refusal(at).find("does not match the daemon"), std::string::npos);
  at = where;
  at.process = 0x7ffffffe;  // no such process
  EXPECT_NE(refusal(at).find("not visible from here"), std::string::npos);
  at = where;
  at.descriptor = 0;  // another file of that process
  EXPECT_NE(refusal(at).find("not visible from here"), std::string::npos);
  EXPECT_NE(refusal(where, element::f64, count + 1).find("size is wrong"), std::string::npos);
  EXPECT_NE(refusal(where, element::f32, 2 * count).find("does not match the daemon"), std::string::npos)
      << "same size, other type";
  // Memory of this name that could still shrink.
  const int fd = ::memfd_create("troupe_shared", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  ASSERT_EQ(::ftruncate(fd, static_cast<off_t>(4096 + 8 * count)), 0);
  at = where;
  at.descriptor = static_cast<std::uint32_t>(fd);
  EXPECT_NE(refusal(at).find("not sealed memory"), std::string::npos);
  ::close(fd);
}

TEST_F(shared_memory, another_user_is_refused) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  child other([&](int) {
    if (::setresuid(65534, 65534, 65534) != 0) return 3;
    return test::error_text(shared_array::map(where, element::f64, count)).find("another user") != std::string::npos ? 0 : 2;
  });
  EXPECT_EQ(other.join(), 0);
}

TEST_F(shared_memory, file_cannot_be_resized_and_is_freed_with_its_last_user) {
  const auto path = "/proc/self/fd/" + std::to_string(where.descriptor);
  const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_GE(fd, 0);
  EXPECT_NE(::ftruncate(fd, 0), 0);
  EXPECT_NE(::ftruncate(fd, 1 << 20), 0);
  ::close(fd);
  const auto a = map();
  file.reset();  // the daemon drops it
  EXPECT_EQ(map(), nullptr) << "no further process can map it";
  std::vector<double> v(count, 2);
  a->write(v.data());
  EXPECT_EQ(a->lock(clock::now() + 1s), taken::yes) << "processes that have mapped it continue";
  a->unlock();
}

TEST_F(shared_memory, make_fails_when_the_machine_has_too_little_memory) {
  const auto why = test::error_text(shared_file::make(element::f64, std::uint64_t{1} << 50));
  EXPECT_NE(why.find("cannot make this memory"), std::string::npos) << why;
}

}  // namespace
}  // namespace troupe::exchange
