// Linked into the simulator's tests with --wrap: every world runs its tasks on separate threads
// while roles continue. Results are the same, and ThreadSanitizer (preset tsan) detects memory that
// a role and one of its tasks, or two tasks, use at the same time.
#include <future>
#include <map>
#include <memory>
#include <mutex>

#include "runtime/sim/world.hpp"

namespace troupe::sim {
namespace {

// The tasks of one seat run one after the other.
class seats {
 public:
  std::function<void()> begin(std::uint64_t seat, std::function<void()> task) {
    std::lock_guard guard(lock_);
    auto& last = last_[seat];
    last = std::async(std::launch::async, [before = last, task = std::move(task)] {
             if (before.valid()) before.wait();
             task();
           }).share();
    return [mine = last] { mine.get(); };
  }

 private:
  std::mutex lock_;
  std::map<std::uint64_t, std::shared_future<void>> last_;
};

}  // namespace

// world::world(world_config)
void make_plain(world* self, world_config c) __asm__("__real__ZN6troupe3sim5worldC1ENS0_12world_configE");
void make_threaded(world* self, world_config c) __asm__("__wrap__ZN6troupe3sim5worldC1ENS0_12world_configE");

void make_threaded(world* self, world_config c) {
  if (!c.elsewhere)
    c.elsewhere = [all = std::make_shared<seats>()](std::uint64_t seat, std::function<void()> task) {
      return all->begin(seat, std::move(task));
    };
  make_plain(self, std::move(c));
}

}  // namespace troupe::sim
