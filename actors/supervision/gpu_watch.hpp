// Describes the GPUs that this process uses, once a second, on a thread of its own: a driver may
// take long to answer, and actors must not wait for it. Without GPUs there is no thread, and the
// GPU backend is not opened.
//
// Errors: values; if a GPU cannot be described, its facts are empty except for `failure`.
// Threads: all members may be called from any thread. The destructor waits for the driver.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "ops/gpu.hpp"
#include "runtime/cluster/view/gpus.hpp"

namespace troupe {

struct watched_gpu {
  int number = 0;
  gpu_facts facts;
};

// Numbers of the GPUs in a list of devices, without repetitions: 0 and 2 for "gpu:0", "cpu:0",
// "gpu:2".
std::vector<int> gpus_in(const std::vector<std::string>& devices);

class gpu_watch {
 public:
  using clock = std::chrono::steady_clock;
  using describe = std::function<gpu_facts(int number, const gpu_facts* earlier)>;

  explicit gpu_watch(std::vector<int> numbers, describe ask = describe_gpu,
                     std::chrono::milliseconds every = std::chrono::seconds(1));
  ~gpu_watch();
  gpu_watch(const gpu_watch&) = delete;
  gpu_watch& operator=(const gpu_watch&) = delete;

  // As last described; empty before the first time. After 5 s without an answer of the driver
  // `failure` says so.
  std::vector<watched_gpu> latest(clock::time_point now = clock::now()) const;

 private:
  void run();
  std::vector<watched_gpu> described(const std::vector<watched_gpu>& earlier) const;

  const std::vector<int> numbers_;
  const describe ask_;
  const std::chrono::milliseconds every_;
  mutable std::mutex lock_;
  std::condition_variable changed_;
  bool ends_ = false;
  std::vector<watched_gpu> latest_;
  clock::time_point answered_ = clock::now();
  std::thread thread_;  // last: it uses everything above
};

// As the REPL shows them.
std::vector<repl_gpu> shown(const std::vector<watched_gpu>& list);

}  // namespace troupe
