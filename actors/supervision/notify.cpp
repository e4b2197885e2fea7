#include "actors/supervision/notify.hpp"

#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>

namespace troupe {
namespace {

std::string take_variable(const char* name) {
  const char* text = std::getenv(name);
  std::string value = text != nullptr ? text : "";
  ::unsetenv(name);
  return value;
}

}  // namespace

service_manager::service_manager() : address_(take_variable("NOTIFY_SOCKET")) {
  const auto every = take_variable("WATCHDOG_USEC"), whose = take_variable("WATCHDOG_PID");
  sockaddr_un at{};
  // A path, or '@' and a name in the abstract socket namespace.
  if (address_.size() < 2 || (address_[0] != '/' && address_[0] != '@') || address_.size() >= sizeof at.sun_path) address_.clear();
  if (address_.empty()) return;
  socket_ = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (whose.empty() || whose == std::to_string(::getpid()))
    watchdog_ = std::chrono::microseconds(std::strtoll(every.c_str(), nullptr, 10));
}

service_manager::~service_manager() {
  if (socket_ >= 0) ::close(socket_);
}

// Does not block: a notification that the manager does not read is dropped.
void service_manager::say(const std::string& lines) const {
  if (socket_ < 0) return;
  sockaddr_un at{};
  at.sun_family = AF_UNIX;
  std::memcpy(at.sun_path, address_.data(), address_.size());
  if (at.sun_path[0] == '@') at.sun_path[0] = 0;
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + address_.size());
  (void)!::sendto(socket_, lines.data(), lines.size(), MSG_NOSIGNAL, reinterpret_cast<const sockaddr*>(&at), size);
}

void service_manager::ready(const std::string& status) { say("READY=1\nSTATUS=" + status); }
void service_manager::reloading() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  const auto microseconds = static_cast<long long>(now.tv_sec) * 1000000 + now.tv_nsec / 1000;
  say("RELOADING=1\nMONOTONIC_USEC=" + std::to_string(microseconds));
}
void service_manager::stopping() { say("STOPPING=1\nSTATUS=draining"); }

void service_manager::alive() {
  if (watchdog_.count() <= 0) return;
  using clock = std::chrono::steady_clock;
  const auto now = clock::now().time_since_epoch();
  if (now - clock::duration(last_.load()) < watchdog_ / 4) return;
  last_ = now.count();
  say("WATCHDOG=1");
}

}  // namespace troupe
