// Handles Ctrl-C and SIGTERM: the first signal calls a function, the second one ends the process at
// once.
#pragma once

#include <functional>
#include <thread>

namespace troupe {

class signal_watch {
 public:
  // `first` is called once, on a separate thread, at the first SIGINT or SIGTERM. Only one watch
  // may exist at a time.
  explicit signal_watch(std::function<void(int signal)> first);
  ~signal_watch();
  signal_watch(const signal_watch&) = delete;
  signal_watch& operator=(const signal_watch&) = delete;

 private:
  std::thread thread_;
};

}  // namespace troupe
