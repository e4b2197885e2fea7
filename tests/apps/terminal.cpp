#include "tests/apps/terminal.hpp"

#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <cstdlib>
#include <stdexcept>
#include <thread>

namespace troupe::testing_apps {

using clock = std::chrono::steady_clock;

terminal::terminal(const std::vector<std::string>& words, const std::filesystem::path& where, unsigned short columns,
                   const std::vector<std::pair<std::string, std::string>>& environment) {
  std::vector<char*> argv;
  for (const auto& w : words) argv.push_back(const_cast<char*>(w.c_str()));
  argv.push_back(nullptr);
  winsize size{50, columns, 0, 0};
  pid_ = forkpty(&line_, nullptr, nullptr, &size);
  if (pid_ < 0) throw std::runtime_error("cannot create a terminal");
  if (pid_ > 0) return;
  setenv("TERM", "xterm", 1);
  setenv("TROUPE_RUNS", "off", 0);
  setenv("HOME", where.c_str(), 1);
  unsetenv("NO_COLOR");
  for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
  for (const int s : {SIGINT, SIGTERM, SIGHUP}) signal(s, SIG_DFL);
  if (chdir(where.c_str()) == 0) execv(argv.front(), argv.data());
  _exit(127);
}

terminal::~terminal() {
  if (pid_ > 0) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  close(line_);
}

void terminal::type(const std::string& keys) const {
  if (write(line_, keys.data(), keys.size()) != static_cast<ssize_t>(keys.size()))
    throw std::runtime_error("cannot write to the terminal");
}

void terminal::send(int signal) const { kill(pid_, signal); }

// Reads available output, or waits for it. Returns false when the program has ended or the deadline
// has passed.
bool terminal::pump(clock::time_point until) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - clock::now()).count();
  pollfd in{line_, POLLIN, 0};
  if (left <= 0 || poll(&in, 1, static_cast<int>(left)) <= 0) return false;
  char buffer[65536];
  const auto got = read(line_, buffer, sizeof buffer);  // EIO: no process has the terminal open
  if (got > 0) screen_.append(buffer, static_cast<std::size_t>(got));
  return got > 0;
}

bool terminal::shows(const std::string& part, std::chrono::milliseconds within) {
  const auto until = clock::now() + within;
  for (;;) {
    if (const auto at = screen_.find(part, found_); at != std::string::npos) {
      found_ = at + part.size();
      return true;
    }
    if (!pump(until)) return false;
  }
}

bool terminal::reads_keys(std::chrono::milliseconds within) const {
  for (const auto until = clock::now() + within; clock::now() < until; std::this_thread::yield()) {
    termios mode{};
    if (tcgetattr(line_, &mode) == 0 && (mode.c_lflag & ICANON) == 0) return true;
  }
  return false;
}

int terminal::wait(std::chrono::milliseconds within) {
  const auto until = clock::now() + within;
  while (pump(until)) {
  }
  int status = 0;
  pid_t ended = 0;
  while ((ended = waitpid(pid_, &status, WNOHANG)) == 0 && clock::now() < until) std::this_thread::yield();
  if (ended != pid_) return -1;
  pid_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace troupe::testing_apps
