// One GPU: what its streams share.
#pragma once

#include <cuda_runtime_api.h>

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "ops/cuda/dnn.hpp"
#include "ops/cuda/order.hpp"
#include "ops/cuda/pool.hpp"
#include "ops/device.hpp"

namespace troupe::cuda {

// Calls functions when events of the device are done, on a thread of its own. The thread starts
// with the first call of when_done().
class event_watch {
 public:
  explicit event_watch(int device) : device_(device) {}
  // Calls what is waiting, after its events. Returns once that is done, except on the watch's own
  // thread, where a function may drop the last handle of the GPU: the thread then ends by itself.
  ~event_watch();
  event_watch(const event_watch&) = delete;
  event_watch& operator=(const event_watch&) = delete;
  // `then` is called once, also if the device is lost.
  void when_done(std::shared_ptr<event> e, std::function<void()> then);

 private:
  struct waiting {
    std::shared_ptr<event> when;
    std::function<void()> then;
  };
  struct state {  // the thread's, too: it may outlive the watch
    std::mutex lock;
    std::condition_variable changed;
    std::vector<waiting> waits;
    bool ends = false;
  };
  static void run(int device, std::shared_ptr<state> s);
  const int device_;
  const std::shared_ptr<state> state_ = std::make_shared<state>();
  std::thread thread_;
};

// Pinned host memory: the device copies to and from it while the host goes on. Blocks are kept,
// because the driver takes long to pin memory.
// Threads: all members may be called from any thread.
class pinned_pool : public std::enable_shared_from_this<pinned_pool> {
 public:
  ~pinned_pool();
  // Returns to the pool with its last handle.
  std::shared_ptr<std::byte> take(std::size_t bytes);

 private:
  std::mutex lock_;
  std::map<std::size_t, std::vector<std::byte*>> free_;  // by size
};

cudaDeviceProp properties_of(int index);  // throws cuda_error
// Equal ids give equal bits.
std::string numerics_id_of(const cudaDeviceProp& p);

struct gpu {
  // Throws cuda_error if the device cannot be used.
  explicit gpu(int index);

  const int index;
  std::string name;         // "gpu:0 (NVIDIA H100 80GB HBM3)"
  std::string numerics_id;  // equal ids give equal bits
  std::shared_ptr<device> host;
  std::shared_ptr<pool> memory;
  std::shared_ptr<pinned_pool> pinned = std::make_shared<pinned_pool>();
  conv_plans convolutions;
  event_watch watch;
};

}  // namespace troupe::cuda
