// What a service manager is told of a daemon that it has started: systemd's protocol, datagrams of
// lines to the socket that NOTIFY_SOCKET names. By hand, since it is one sendto(): libsystemd would
// bring liblzma, libzstd, liblz4, libgcrypt and libcap into every daemon for it. Without such a
// manager nothing happens. Any thread.
#pragma once

#include <atomic>
#include <chrono>
#include <string>

namespace troupe {

class service_manager {
 public:
  // As the environment has it; the variables are taken out of it, so that no child speaks for us.
  service_manager();
  ~service_manager();
  service_manager(const service_manager&) = delete;
  service_manager& operator=(const service_manager&) = delete;

  void ready(const std::string& status);
  void reloading();  // until ready() is said again
  void stopping();
  // Everything that must be alive is. Told on at a quarter of the time that the manager waits for
  // it.
  void alive();

 private:
  void say(const std::string& lines) const;

  int socket_ = -1;
  std::string address_;
  std::chrono::microseconds watchdog_{0};  // 0: nobody waits
  std::atomic<std::chrono::steady_clock::rep> last_{0};
};

}  // namespace troupe
