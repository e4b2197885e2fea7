#include "runtime/node/formats/child_process.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <exception>
#include <fstream>
#include <string_view>

#include "runtime/node/memory_file/memory_file.hpp"

namespace troupe {
namespace {

using memory_file::descriptor;

constexpr int kept_as = 3, reply_as = 4, failed_code = 3;
constexpr char complete = '.';  // the last byte of a reply

// Bytes of the address space of this process; 0: unknown.
std::uint64_t address_space() {
  std::uint64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

void first_when_memory_is_short() {
  constexpr std::string_view most = "1000";
  const int file = ::open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
  if (file < 0 || ::write(file, most.data(), most.size()) < 0) return;  // less safe, but no reason to give up
  ::close(file);
}

// Sets a limit, which may already be lower.
void lower_limit(__rlimit_resource of, rlim_t soft, rlim_t hard) {
  rlimit l{};
  ::getrlimit(of, &l);
  l.rlim_max = std::min(hard, l.rlim_max);
  l.rlim_cur = std::min(soft, l.rlim_max);
  if (::setrlimit(of, &l) != 0) ::_exit(failed_code);
}

// `space`: the address space of the parent; 0: unknown.
void restrict_child(const child_limits& limits, std::uint64_t space, int keep, int reply) {
  for (int s = 1; s < NSIG; ++s) ::signal(s, SIG_DFL);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  // Above both targets first: one of the two may have the number of the other's target.
  const int kept = ::fcntl(keep, F_DUPFD, reply_as + 1), replies = ::fcntl(reply, F_DUPFD, reply_as + 1);
  if (::dup2(kept, kept_as) < 0 || ::dup2(replies, reply_as) < 0) ::_exit(failed_code);
  ::close_range(reply_as + 1, ~0U, 0);
  first_when_memory_is_short();
  lower_limit(RLIMIT_CORE, 0, 0);
  lower_limit(RLIMIT_CPU, limits.cpu_seconds, limits.most_cpu_seconds + 1);
  if (space > 0) lower_limit(RLIMIT_AS, space + limits.memory, space + limits.memory);
}

[[noreturn]] void run_child(const std::function<std::string(int)>& work) {
  std::string reply;
  try {
    reply = work(kept_as);
  } catch (const std::exception&) {  // no exception may leave: the caller's frames are those of the parent
    ::_exit(failed_code);
  }
  reply.resize(std::min(reply.size(), most_child_reply));
  reply += complete;
  // Fits the pipe, so that it is one write.
  const auto written = ::write(reply_as, reply.data(), reply.size());
  ::_exit(written == static_cast<ssize_t>(reply.size()) ? 0 : failed_code);
}

// What ended a child that gave no reply.
std::string end_of_child(bool known, int status) {
  if (!known) return "ended";
  if (!WIFSIGNALED(status)) return "ended with exit code " + std::to_string(WEXITSTATUS(status));
  const int s = WTERMSIG(status);
  if (s == SIGXCPU) return "took more time of a processor than it may";
  const char* name = ::sigabbrev_np(s);
  return "was ended by signal " + std::to_string(s) + (name != nullptr ? std::string(" (SIG") + name + ")" : "");
}

}  // namespace

void allow_cpu(std::uint64_t seconds) {
  rlimit l{};
  ::getrlimit(RLIMIT_CPU, &l);
  l.rlim_cur = std::min<rlim_t>(seconds, l.rlim_max);
  ::setrlimit(RLIMIT_CPU, &l);
}

expected<std::string> in_child(const child_limits& limits, int keep, const std::function<std::string(int)>& work) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return unexpected(error(std::string("no pipe: ") + std::strerror(errno)));
  const descriptor from(ends[0]);
  descriptor to(ends[1]);
  const auto space = address_space();
  const auto child = ::fork();
  if (child < 0) return unexpected(error(std::string("no child process: ") + std::strerror(errno)));
  if (child == 0) {
    restrict_child(limits, space, keep, to.get());
    run_child(work);
  }
  to = descriptor();
  std::string reply;
  std::array<char, most_child_reply + 1> part{};
  for (;;) {  // to the end: the child has exited or has written everything
    const auto n = ::read(from.get(), part.data(), part.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    reply.append(part.data(), static_cast<std::size_t>(n));
    if (reply.size() > part.size()) ::kill(child, SIGKILL);  // the file has taken it over
  }
  int status = 0;
  pid_t ended = 0;
  // Fails if this program ignores SIGCHLD: then the reply alone counts.
  while ((ended = ::waitpid(child, &status, 0)) < 0 && errno == EINTR) {
  }
  const bool known = ended == child;
  if (reply.empty() || reply.back() != complete || (known && (!WIFEXITED(status) || WEXITSTATUS(status) != 0)))
    return unexpected(error("the process that read it " + end_of_child(known, status)));
  reply.pop_back();
  return reply;
}

}  // namespace troupe
