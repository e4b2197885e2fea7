// The watch of the GPUs that a node uses, with a function in place of the driver.
#include "actors/supervision/gpu_watch.hpp"

#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>
#include <stdexcept>

#include "runtime/cluster/view/gpus.hpp"

namespace troupe {
namespace {

using namespace std::chrono_literals;

// In place of the driver: counts its calls, and fails or blocks as told.
class fake_driver {
 public:
  gpu_facts describe(int number, const gpu_facts* earlier) {
    std::unique_lock guard(lock_);
    ++calls_;
    changed_.notify_all();
    changed_.wait(guard, [&] { return !blocked_; });
    if (lost_ && (!earlier || number == 0)) throw std::runtime_error("gpu:" + std::to_string(number) + ": lost");
    auto f = earlier ? *earlier : gpu_facts{};
    f.failure.clear();
    f.name = "GPU " + std::to_string(number);
    f.memory_total = 100;
    f.memory_free = 40;
    f.sensors.temperature = static_cast<double>(calls_);
    return f;
  }
  gpu_watch::describe function() {
    return [this](int number, const gpu_facts* earlier) { return describe(number, earlier); };
  }
  // Waits until `n` more calls have begun.
  bool called(int n) {
    std::unique_lock guard(lock_);
    const auto target = calls_ + n;
    return changed_.wait_for(guard, 20s, [&] { return calls_ >= target; });
  }
  void set(bool lost, bool blocked) {
    const std::lock_guard guard(lock_);
    lost_ = lost, blocked_ = blocked;
    changed_.notify_all();
  }
  int calls() {
    const std::lock_guard guard(lock_);
    return calls_;
  }

 private:
  std::mutex lock_;
  std::condition_variable changed_;
  int calls_ = 0;
  bool lost_ = false, blocked_ = false;
};

TEST(gpu_watch, a_list_of_devices_names_each_gpu_once) {
  EXPECT_EQ(gpus_in({"cpu:0", "gpu:2", "gpu:0", "gpu:2", "cpu:1", "gpux:1", "gpu:"}), (std::vector<int>{2, 0}));
  EXPECT_TRUE(gpus_in({"cpu:0"}).empty());
}

TEST(gpu_watch, asks_nothing_when_no_gpu_is_named) {
  fake_driver driver;
  {
    const gpu_watch w({}, driver.function(), 1ms);
    EXPECT_TRUE(w.latest().empty());
  }
  EXPECT_EQ(driver.calls(), 0);
}

TEST(gpu_watch, describes_all_gpus_again_and_again) {
  fake_driver driver;
  const gpu_watch w({2, 0}, driver.function(), 1ms);
  ASSERT_TRUE(driver.called(6));
  const auto list = w.latest();
  ASSERT_EQ(list.size(), 2u);
  EXPECT_EQ(list[0].number, 2);
  EXPECT_EQ(list[0].facts.name, "GPU 2");
  EXPECT_EQ(list[1].facts.name, "GPU 0");
  EXPECT_GE(list[1].facts.sensors.temperature, 2);
  EXPECT_EQ(list[1].facts.failure, "");
}

TEST(gpu_watch, keeps_what_it_knew_of_a_gpu_that_fails) {
  fake_driver driver;
  const gpu_watch w({0, 1}, driver.function(), 1ms);
  ASSERT_TRUE(driver.called(4));
  driver.set(true, false);
  ASSERT_TRUE(driver.called(6));
  const auto list = w.latest();
  ASSERT_EQ(list.size(), 2u);
  EXPECT_EQ(list[0].facts.failure, "gpu:0: lost");
  EXPECT_EQ(list[0].facts.name, "GPU 0");
  EXPECT_EQ(list[1].facts.failure, "");
}

TEST(gpu_watch, is_empty_before_the_first_answer_and_says_when_the_driver_is_silent) {
  fake_driver driver;
  driver.set(false, true);
  {
    const gpu_watch w({0}, driver.function(), 1ms);
    ASSERT_TRUE(driver.called(1) || driver.calls() > 0);
    EXPECT_TRUE(w.latest().empty()) << "a caller does not wait for the driver";
    driver.set(false, false);
    ASSERT_TRUE(driver.called(2));
    EXPECT_EQ(w.latest()[0].facts.failure, "");
    driver.set(false, true);
    const auto late = w.latest(gpu_watch::clock::now() + 12s);
    ASSERT_EQ(late.size(), 1u);
    EXPECT_NE(late[0].facts.failure.find("the driver has not answered for 1"), std::string::npos) << late[0].facts.failure;
    EXPECT_EQ(late[0].facts.name, "GPU 0");
    driver.set(false, false);
  }
}

TEST(gpu_watch, shows_memory_in_use_by_cuda_or_else_by_the_sensors) {
  watched_gpu g{3, {}};
  g.facts.name = "H100";
  g.facts.memory_total = 100;
  g.facts.sensors.memory_used = 77;
  g.facts.sensors.power = 350;
  EXPECT_EQ(shown({g})[0].memory_used, 77u);
  EXPECT_FALSE(shown({g})[0].held);
  g.facts.memory_free = 40;
  g.facts.pool = device::pool_statistics{30, 20, 25, 0, 0};
  const auto s = shown({g})[0];
  EXPECT_EQ(s.number, 3u);
  EXPECT_EQ(s.memory_used, 60u);
  EXPECT_EQ(s.held, 30u);
  EXPECT_EQ(s.in_use, 20u);
  EXPECT_EQ(s.peak, 25u);
  EXPECT_EQ(s.power, 350);
}

}  // namespace
}  // namespace troupe
