// Which signals are one request to stop, and what handlers do in a real process.
#include "actors/supervision/stop_requests.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <future>

#include "actors/supervision/stop_signals.hpp"

namespace troupe {
namespace {

using namespace std::chrono_literals;
using stop_answer = stop_requests::answer;

TEST(stop_requests, signals_within_two_seconds_of_the_first_are_one_request) {
  stop_requests r;
  EXPECT_EQ(r.signal(), 0);
  EXPECT_EQ(r.request(SIGTERM, 100s), stop_answer::first);
  EXPECT_EQ(r.request(SIGTERM, 100s), stop_answer::repeated);
  EXPECT_EQ(r.request(SIGINT, 100s + 1999ms), stop_answer::repeated);
  EXPECT_EQ(r.signal(), SIGTERM) << "the first one gives the exit code";
}

// The time counts from the first one: signals in quick succession end the process in the end.
TEST(stop_requests, a_signal_two_seconds_after_the_first_ends_at_once) {
  stop_requests r;
  EXPECT_EQ(r.request(SIGINT, -5s), stop_answer::first) << "the clock's origin is arbitrary";
  EXPECT_EQ(r.request(SIGINT, -4s), stop_answer::repeated);
  EXPECT_EQ(r.request(SIGINT, -3s), stop_answer::at_once);
}

TEST(stop_requests, the_first_signal_ends_at_once_when_a_command_stops_the_process) {
  stop_requests r;
  r.stopping();
  EXPECT_EQ(r.request(SIGINT, 1s), stop_answer::at_once);
  EXPECT_EQ(r.signal(), 0);
}

TEST(stop_requests, stopping_keeps_the_time_of_the_signal_that_caused_it) {
  stop_requests r;
  EXPECT_EQ(r.request(SIGTERM, 1s), stop_answer::first);
  r.stopping();
  EXPECT_EQ(r.request(SIGTERM, 2s), stop_answer::repeated);
  EXPECT_EQ(r.request(SIGTERM, 3s), stop_answer::at_once);
}

TEST(stop_requests, clear_forgets_the_request) {
  stop_requests r;
  EXPECT_EQ(r.request(SIGINT, 1s), stop_answer::first);
  r.clear();
  EXPECT_EQ(r.signal(), 0);
  EXPECT_EQ(r.request(SIGTERM, 9s), stop_answer::first);
}

// Runs `f` in a child process, so that signals do not concern the test. Returns its exit code, or
// 128 + its signal.
template <class F>
int in_child(F f) {
  const pid_t pid = fork();
  if (pid == 0) _exit(f());
  int status = 0;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// Returns the signal that `first` was called with.
int first_signal_after(int sent, int times) {
  std::promise<int> called;
  const stop_signals watch([&](int s) { called.set_value(s); });
  for (int i = 0; i < times; ++i) raise(sent);
  const int got = called.get_future().get();
  return watch.exit_code(0) == 128 + sent && watch.signal() == sent ? got : 99;
}

TEST(stop_signals, each_signal_is_one_call_also_when_it_is_sent_twice) {
  for (const int s : {SIGINT, SIGTERM, SIGHUP})
    for (const int times : {1, 2})
      EXPECT_EQ(in_child([&] {
                  ::signal(s, SIG_DFL);
                  return first_signal_after(s, times);
                }),
                s);
}

TEST(stop_signals, sighup_stays_ignored_when_the_process_ignores_it) {
  EXPECT_EQ(in_child([] {
              ::signal(SIGHUP, SIG_IGN);
              const stop_signals watch([](int) {});
              raise(SIGHUP);
              return watch.exit_code(7);
            }),
            7);
}

TEST(stop_signals, a_library_keeps_the_handlers_of_its_program) {
  EXPECT_EQ(in_child([] {
              static volatile std::sig_atomic_t own = 0;
              ::signal(SIGTERM, [](int) { own = 1; });
              ::signal(SIGINT, SIG_DFL);
              const stop_signals watch([](int) {}, stop_signals::of::library);
              raise(SIGTERM);
              if (own != 1 || watch.signal() != 0) return 1;
              raise(SIGINT);  // keeps its default action, too
              return 2;
            }),
            128 + SIGINT);
}

TEST(stop_signals, handlers_are_those_from_before_when_the_object_is_gone) {
  EXPECT_EQ(in_child([] {
              ::signal(SIGTERM, SIG_DFL);
              {
                const stop_signals watch([](int) {});
              }
              raise(SIGTERM);
              return 1;
            }),
            128 + SIGTERM);
}

// A process that was asked to stop still writes what it has: `timeout` signals it, then its group.
TEST(stop_signals, the_same_request_kills_no_process_when_the_object_is_gone) {
  for (const auto whose : {stop_signals::of::program, stop_signals::of::library})
    EXPECT_EQ(in_child([&] {
                for (const int s : {SIGTERM, SIGHUP}) ::signal(s, SIG_DFL);
                {
                  const stop_signals watch([](int) {}, whose);
                  raise(SIGTERM);
                }
                raise(SIGTERM);
                raise(SIGHUP);
                return 7;
              }),
              7);
}

TEST(stop_signals, an_ignored_signal_stays_ignored_when_another_one_ended_the_object) {
  EXPECT_EQ(in_child([] {
              ::signal(SIGHUP, SIG_IGN);
              ::signal(SIGTERM, SIG_DFL);
              {
                const stop_signals watch([](int) {});
                raise(SIGTERM);
              }
              struct sigaction now {};
              sigaction(SIGHUP, nullptr, &now);
              return now.sa_handler == SIG_IGN ? 7 : 1;
            }),
            7);
}

// A Python program may catch the SystemExit of a stopped training, and train again.
TEST(stop_signals, a_second_object_takes_signals_when_the_process_went_on_after_a_stop) {
  for (const auto whose : {stop_signals::of::program, stop_signals::of::library})
    EXPECT_EQ(in_child([&] {
                ::signal(SIGTERM, SIG_DFL);
                {
                  const stop_signals watch([](int) {}, whose);
                  raise(SIGTERM);
                }
                std::promise<int> called;
                {
                  const stop_signals watch([&](int s) { called.set_value(s); }, whose);
                  if (watch.signal() != 0) return 1;
                  raise(SIGTERM);
                  if (called.get_future().get() != SIGTERM) return 2;
                }
                {
                  const stop_signals quiet([](int) {}, whose);
                }
                raise(SIGTERM);  // no request is open: the action from the beginning
                return 3;
              }),
              128 + SIGTERM);
}

TEST(stop_signals, writes_fail_with_an_error_when_the_reader_is_gone_or_the_file_is_at_its_limit) {
  EXPECT_EQ(in_child([] {
              ignore_signals_of_writes();
              int ends[2];
              if (pipe(ends) != 0) return 1;
              close(ends[0]);
              if (write(ends[1], "x", 1) != -1 || errno != EPIPE) return 2;
              const rlimit none{0, RLIM_INFINITY};
              setrlimit(RLIMIT_FSIZE, &none);
              FILE* file = std::tmpfile();
              if (!file) return 3;
              return write(fileno(file), "x", 1) == -1 && errno == EFBIG ? 0 : 4;
            }),
            0);
}

}  // namespace
}  // namespace troupe
