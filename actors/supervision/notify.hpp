// Notifications of a daemon to the service manager that started it, in systemd's protocol:
// datagrams of lines to the socket that NOTIFY_SOCKET names. Implemented here, since it is one
// sendto(): libsystemd would add liblzma, libzstd, liblz4, libgcrypt and libcap to every daemon. No
// effect without a service manager. Threads: any.
#pragma once

#include <atomic>
#include <chrono>
#include <string>

namespace troupe {

class service_manager {
 public:
  // Reads the environment and removes the variables from it, so that child processes cannot send
  // notifications in the daemon's name.
  service_manager();
  ~service_manager();
  service_manager(const service_manager&) = delete;
  service_manager& operator=(const service_manager&) = delete;

  void ready(const std::string& status);
  void reloading();  // until the next ready()
  void stopping();
  // Reports that all watched actors are alive. Forwarded at most once in a quarter of the manager's
  // watchdog timeout.
  void alive();

 private:
  void say(const std::string& lines) const;

  int socket_ = -1;
  std::string address_;
  std::chrono::microseconds watchdog_{0};  // the manager's timeout; 0: no watchdog
  std::atomic<std::chrono::steady_clock::rep> last_{0};
};

}  // namespace troupe
