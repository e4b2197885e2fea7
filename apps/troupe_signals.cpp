#include "apps/troupe_signals.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>

#include "apps/troupe_output.hpp"

namespace troupe {
namespace {

// A handler may run on any thread, including threads that a library created before main(), so it
// only writes to a pipe.
std::atomic<int> received{0};
int pipe_ends[2] = {-1, -1};
struct sigaction before_int, before_term;

void on_signal(int signal) {
  const int kept = errno;
  if (received.fetch_add(1) > 0) _exit(exit_failed);
  const auto word = static_cast<unsigned char>(signal);
  [[maybe_unused]] const auto written = write(pipe_ends[1], &word, 1);
  errno = kept;
}

}  // namespace

signal_watch::signal_watch(std::function<void(int)> first) {
  received = 0;
  if (pipe2(pipe_ends, O_CLOEXEC) != 0) return;  // without a pipe, signals keep their default actions
  thread_ = std::thread([first = std::move(first), end = pipe_ends[0]] {
    unsigned char word = 0;
    ssize_t got = 0;
    do got = read(end, &word, 1);
    while (got < 0 && errno == EINTR);
    if (got == 1 && word != 0) first(word);
  });
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, &before_int);
  sigaction(SIGTERM, &action, &before_term);
}

signal_watch::~signal_watch() {
  if (!thread_.joinable()) return;
  sigaction(SIGINT, &before_int, nullptr);
  sigaction(SIGTERM, &before_term, nullptr);
  const unsigned char enough = 0;
  [[maybe_unused]] const auto written = write(pipe_ends[1], &enough, 1);
  thread_.join();
  close(pipe_ends[0]);
  close(pipe_ends[1]);
}

}  // namespace troupe
