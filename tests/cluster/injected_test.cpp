// Effects of injected faults in a process: it stops itself and is woken without keeping a child,
// and its writes are delayed.
#include "actors/control/host/injected.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "runtime/cluster/controller/journal.hpp"
#include "runtime/record/paced.hpp"
#include "tests/error_text.hpp"

namespace troupe::control {
namespace {

using namespace std::chrono_literals;

class folder {
 public:
  folder() {
    std::string name = (std::filesystem::temp_directory_path() / "troupe-inject-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp");
    path_ = name;
  }
  ~folder() { std::filesystem::remove_all(path_); }
  folder(const folder&) = delete;
  folder& operator=(const folder&) = delete;
  std::string operator/(const char* name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

TEST(injected, a_process_that_stops_itself_is_woken_and_has_no_child_left) {
  const auto child = ::fork();
  if (child == 0) {
    sigset_t wakes;
    ::sigemptyset(&wakes);
    ::sigaddset(&wakes, SIGCONT);
    ::sigprocmask(SIG_BLOCK, &wakes, nullptr);
    const bool begun = stop_this_process(300ms).has_value();
    int woken = 0;
    ::sigwait(&wakes, &woken);
    const bool none = ::waitpid(-1, nullptr, WNOHANG) == -1 && errno == ECHILD;
    ::_exit(begun && none ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, WUNTRACED), child);
  EXPECT_TRUE(WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

// A pipe is closed when its last holder closes it. The process that sleeps to wake a stopped
// process must hold no descriptor.
TEST(injected, the_process_that_wakes_a_stopped_process_holds_no_descriptor) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const auto child = ::fork();
  if (child == 0) {
    ::close(ends[0]);
    (void)stop_this_process(30s);
    for (;;) ::pause();
  }
  ::close(ends[1]);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, WUNTRACED), child);
  ASSERT_TRUE(WIFSTOPPED(status));
  ::kill(child, SIGKILL);
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  char byte = 0;
  ::alarm(10);  // otherwise the read would wait for 30 s
  EXPECT_EQ(::read(ends[0], &byte, 1), 0) << "the pipe is closed";
  ::alarm(0);
  ::close(ends[0]);
}

TEST(injected, a_slow_disk_delays_every_write_and_sync_of_files_and_journals) {
  const folder f;
  int times = 0;
  const before_write count = [&] { ++times; };
  const std::string text = "abc";
  EXPECT_EQ(test::error_text(write_file_atomically(f / "file", {{text.data(), 3}, {text.data(), 2}}, count)), "");
  EXPECT_EQ(times, 4) << "two writes, one sync of the file, one of the folder";
  times = 0;
  EXPECT_TRUE(write_safetensors(f / "weights", {}, {{"a", "b"}}, count));
  EXPECT_EQ(times, 3) << "one write of the header and two syncs";
  journal j(f / "journal");
  EXPECT_EQ(test::error_text(j.opened()), "");
  times = 0;
  j.pace(count);
  EXPECT_EQ(test::error_text(j.append(journal_begun(1))), "");
  EXPECT_EQ(times, 2) << "one write and one sync";
}

TEST(injected, a_slow_disk_ends_after_its_duration) {
  injected_faults faults;
  const auto pace = faults.pace();
  const auto took = [&] {
    const auto begun = std::chrono::steady_clock::now();
    pace();
    return std::chrono::steady_clock::now() - begun;
  };
  EXPECT_TRUE(faults.begin({fault_kind::slow_disk, "n1", 1min, 60ms}));
  EXPECT_GE(took(), 60ms);
  EXPECT_TRUE(faults.begin({fault_kind::slow_disk, "n1", 1ms, 500ms}));
  while (took() >= 500ms) {
  }
}

TEST(injected, a_drop_affects_both_planes_and_a_delay_only_data) {
  injected_faults faults;
  EXPECT_TRUE(faults.begin({fault_kind::delay, "n1", 1min, 60ms}));
  EXPECT_EQ(faults.data->delays(), 60ms);
  EXPECT_EQ(faults.control->delays(), 0ms);
  EXPECT_EQ(faults.data->drops(), 0ms);
  EXPECT_TRUE(faults.begin({fault_kind::drop, "n1", 1min, 0ms}));
  EXPECT_GT(faults.data->drops(), 0ms);
  EXPECT_GT(faults.control->drops(), 0ms);
}

TEST(injected, log_times_are_utc_with_seconds) {
  EXPECT_EQ(clock_text(std::chrono::system_clock::from_time_t(1'000'000'000)), "2001-09-09T01:46:40Z");
}

}  // namespace
}  // namespace troupe::control
