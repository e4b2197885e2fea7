// Ctrl-C and SIGTERM: the first asks, the second ends the process at once.
#pragma once

#include <functional>
#include <thread>

namespace troupe {

class signal_watch {
 public:
  // `first` is called once, on a thread of ours, at the first SIGINT or SIGTERM. One watch at a
  // time.
  explicit signal_watch(std::function<void(int signal)> first);
  ~signal_watch();
  signal_watch(const signal_watch&) = delete;
  signal_watch& operator=(const signal_watch&) = delete;

 private:
  std::thread thread_;
};

}  // namespace troupe
