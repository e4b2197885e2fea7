// The virtual GPU finds mistakes that were planted, in kernels and in the order of operations, and
// finds none in correct code.
#include "tests/vgpu/vgpu.hpp"

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <numeric>

#include "tests/vgpu/device_user.hpp"
#include "tests/vgpu/sample_kernels.hpp"

namespace troupe::vgpu {
namespace {

using cuda::check;

std::vector<float> numbers(std::int64_t n) {
  std::vector<float> v(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < v.size(); ++i) v[i] = static_cast<float>(i * 37 % 11) - 5;
  return v;
}

// Calls `run` with a new virtual GPU for each seed; returns the findings of all.
template <class F>
std::vector<std::string> over_seeds(int seeds, F run) {
  std::vector<std::string> all;
  for (int seed = 1; seed <= seeds; ++seed) {
    options o;
    o.seed = static_cast<std::uint64_t>(seed);
    reset(o);
    run();
    for (auto& f : findings()) all.push_back(std::move(f));
  }
  return all;
}
template <class F>
void found_in_every_seed(const std::string& what, F run) {
  for (int seed = 1; seed <= 20; ++seed) {
    options o;
    o.seed = static_cast<std::uint64_t>(seed);
    reset(o);
    run();
    const auto list = findings();
    ASSERT_FALSE(list.empty()) << "seed " << seed;
    EXPECT_NE(list[0].find(what), std::string::npos) << list[0];
  }
}

TEST(vgpu_kernels, correct_kernels_compute_their_results_without_findings) {
  const auto list = over_seeds(20, [] {
    device_user u;
    const std::int64_t rows = 7, n = 300;
    const auto x = numbers(rows * n);
    auto *dx = u.filled(x), *twice = u.memory<float>(rows * n), *sums = u.memory<float>(rows), *tree = u.memory<float>(rows),
         *turned = u.memory<float>(rows * n);
    auto* reversed = u.memory<float>(32);
    double_all(u.stream, rows * n, dx, twice);
    sum_rows(u.stream, rows, n, dx, sums);
    sum_rows_by_tree(u.stream, rows, n, dx, tree);
    transpose(u.stream, rows, n, dx, turned);
    reverse(u.stream, dx, reversed);
    const auto a = u.read(twice, rows * n), b = u.read(sums, rows), c = u.read(tree, rows), d = u.read(turned, rows * n),
               e = u.read(reversed, 32);
    for (std::int64_t r = 0; r < rows; ++r) {
      const auto at = x.begin() + r * n;
      EXPECT_EQ(b[static_cast<std::size_t>(r)], std::accumulate(at, at + n, 0.0f));
      EXPECT_EQ(c[static_cast<std::size_t>(r)], std::accumulate(at, at + n, 0.0f));
      for (std::int64_t i = 0; i < n; ++i) {
        EXPECT_EQ(a[static_cast<std::size_t>(r * n + i)], 2 * x[static_cast<std::size_t>(r * n + i)]);
        EXPECT_EQ(d[static_cast<std::size_t>(i * rows + r)], x[static_cast<std::size_t>(r * n + i)]);
      }
    }
    for (std::size_t i = 0; i < 32; ++i) EXPECT_EQ(e[i], x[31 - i]);
  });
  EXPECT_TRUE(list.empty()) << list[0];
}

TEST(vgpu_kernels, a_missing_barrier_is_a_race) {
  found_in_every_seed("race on element", [] {
    device_user u;
    sum_rows(u.stream, 2, 300, u.filled(numbers(600)), u.memory<float>(2), mistake::no_barrier);
  });
  found_in_every_seed("race on element", [] {
    device_user u;
    transpose(u.stream, 16, 64, u.filled(numbers(1024)), u.memory<float>(1024), mistake::no_second_barrier);
  });
  found_in_every_seed("race on element", [] {
    device_user u;
    reverse(u.stream, u.filled(numbers(32)), u.memory<float>(32), mistake::no_warp_barrier);
  });
}

TEST(vgpu_kernels, threads_that_end_before_a_barrier_are_found) {
  found_in_every_seed("16 threads have ended while others wait at __syncthreads", [] {
    device_user u;
    reverse(u.stream, u.filled(numbers(32)), u.memory<float>(32), mistake::ended_threads);
  });
}

TEST(vgpu_kernels, a_shuffle_with_absent_lanes_is_a_deadlock) {
  found_in_every_seed("deadlock: 0 threads wait at __syncthreads, 16 in a warp, 16 have ended", [] {
    device_user u;
    reverse(u.stream, u.filled(numbers(32)), u.memory<float>(32), mistake::absent_lanes);
  });
}

TEST(vgpu_kernels, an_element_beyond_a_shared_array_is_found) {
  found_in_every_seed("element 8 of a shared array of 8", [] {
    device_user u;
    sum_rows(u.stream, 2, 300, u.filled(numbers(600)), u.memory<float>(2), mistake::one_beyond_shared);
  });
}

TEST(vgpu_kernels_death, an_element_beyond_a_block_of_memory_is_a_fault) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_DEATH(
      {
        reset({});
        device_user u;
        double_all(u.stream, 64, u.filled(numbers(64)), u.memory<float>(64), mistake::one_beyond);
        cudaStreamSynchronize(u.stream);
      },
      "");
}

TEST(vgpu_kernels_death, the_host_cannot_access_device_memory) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_DEATH(
      {
        reset({});
        device_user u;
        *u.filled(numbers(4)) = 1;
      },
      "");
}

TEST(vgpu_order, a_kernel_that_does_not_wait_for_another_streams_copy_is_found) {
  found_in_every_seed("reads what a copy to the device writes, and nothing orders the two", [] {
    device_user a, b;
    double_all(b.stream, 64, a.filled(numbers(64)), b.memory<float>(64));
  });
}

TEST(vgpu_order, an_event_orders_two_streams) {
  const auto list = over_seeds(50, [] {
    device_user a, b;
    cudaEvent_t e = nullptr;
    check(cudaEventCreateWithFlags(&e, cudaEventDisableTiming), "event");
    auto *x = a.filled(numbers(64)), *y = b.memory<float>(64);
    check(cudaEventRecord(e, a.stream), "record");
    check(cudaStreamWaitEvent(b.stream, e, 0), "wait");
    double_all(b.stream, 64, x, y);
    EXPECT_EQ(b.read(y, 64)[3], 2 * numbers(64)[3]);
    check(cudaEventDestroy(e), "event");
  });
  EXPECT_TRUE(list.empty()) << list[0];
}

TEST(vgpu_order, a_write_that_does_not_wait_for_a_reader_is_found) {
  found_in_every_seed("a memset writes what", [] {
    device_user a, b;
    auto *x = a.filled(numbers(64)), *y = a.memory<float>(64);
    check(cudaStreamSynchronize(a.stream), "wait");
    double_all(a.stream, 64, x, y);
    check(cudaMemsetAsync(x, 0, 4, b.stream), "memset");
  });
}

TEST(vgpu_order, a_host_that_does_not_wait_reads_old_values_in_some_order) {
  int stale = 0;
  over_seeds(50, [&] {
    device_user u;
    void* pinned = nullptr;
    check(cudaHostAlloc(&pinned, sizeof(float), 0), "pinned");
    auto* v = static_cast<float*>(pinned);
    *v = -1;
    check(cudaMemcpyAsync(v, u.filled(std::vector{5.0f}), sizeof(float), cudaMemcpyDeviceToHost, u.stream), "copy");
    stale += *v == -1 ? 1 : 0;
    check(cudaStreamSynchronize(u.stream), "wait");
    EXPECT_EQ(*v, 5.0f);
    check(cudaFreeHost(v), "pinned");
  });
  EXPECT_GT(stale, 10);
}

TEST(vgpu_order, the_default_stream_is_found) {
  reset({});
  device_user u;
  EXPECT_EQ(cudaMemsetAsync(u.memory<float>(4), 0, 16, nullptr), cudaErrorInvalidResourceHandle);
  ASSERT_EQ(findings().size(), 1u);
  EXPECT_NE(findings()[0].find("default stream"), std::string::npos);
}

TEST(vgpu_memory, begins_as_nan_and_is_not_reused_after_release) {
  reset({});
  device_user u;
  const auto v = u.read(u.memory<float>(2), 2);
  EXPECT_NE(v[0], v[0]);
  void* p = nullptr;
  check(cudaMalloc(&p, 64), "memory");
  check(cudaFree(p), "release");
  EXPECT_EQ(cudaMemsetAsync(p, 0, 4, u.stream), cudaErrorInvalidValue);
  EXPECT_EQ(findings().size(), 1u);
  EXPECT_EQ(cudaFree(p), cudaErrorInvalidValue);
  EXPECT_EQ(findings().size(), 2u);
}

TEST(vgpu_memory, an_allocation_fails_beyond_the_devices_memory_or_by_number) {
  options o;
  void *a = nullptr, *b = nullptr;
  o.fail_allocation = 1;
  reset(o);
  ASSERT_EQ(cudaMalloc(&a, 1024), cudaSuccess);
  for (int k = 0; k < 2; ++k) EXPECT_EQ(cudaMalloc(&b, 1024), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
  o.memory = 4096, o.fail_allocation = -1;
  reset(o);
  ASSERT_EQ(cudaMalloc(&a, 1024), cudaSuccess);
  EXPECT_EQ(cudaMalloc(&b, 3200), cudaErrorMemoryAllocation);
  ASSERT_EQ(cudaMalloc(&b, 3072), cudaSuccess);
  std::size_t left = 1, total = 0;
  ASSERT_EQ(cudaMemGetInfo(&left, &total), cudaSuccess);
  EXPECT_EQ(left, 0u);
  EXPECT_EQ(total, 4096u);
  EXPECT_EQ(cudaFree(a), cudaSuccess);
  EXPECT_EQ(counted().bytes_in_use, 3072u);
}

TEST(vgpu_devices, memory_of_one_device_is_copied_to_another) {
  const auto list = over_seeds(20, [] {
    options o;
    o.devices = 2;
    reset(o);
    device_user first;
    auto* x = first.filled(numbers(16));
    check(cudaSetDevice(1), "device");
    {
      device_user second;
      auto* y = second.memory<float>(16);
      EXPECT_EQ(cudaMemcpyPeerAsync(y, 0, x, 1, 64, first.stream), cudaErrorInvalidValue) << "devices are exchanged";
      EXPECT_EQ(findings().size(), 1u);
      check(cudaMemcpyPeerAsync(y, 1, x, 0, 64, first.stream), "copy");
      check(cudaStreamSynchronize(first.stream), "wait");
      EXPECT_EQ(second.read(y, 16), numbers(16));
      EXPECT_THROW(double_all(first.stream, 16, x, x), cuda::cuda_error) << "a stream of another device";
    }
    check(cudaSetDevice(0), "device");
  });
  EXPECT_EQ(list.size(), 20u);
}

TEST(vgpu_devices, a_lost_device_fails_every_call_and_hangs_none) {
  options o;
  o.lose_device = 1;
  reset(o);
  device_user u;
  auto* x = u.filled(numbers(4));
  EXPECT_EQ(cudaMemsetAsync(x, 0, 4, u.stream), cudaErrorLaunchFailure);
  EXPECT_EQ(cudaStreamSynchronize(u.stream), cudaErrorLaunchFailure);
  void* p = nullptr;
  EXPECT_EQ(cudaMalloc(&p, 4), cudaErrorLaunchFailure);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorLaunchFailure);
}

TEST(vgpu_devices, calls_fail_without_a_driver) {
  options o;
  o.driver = 0;
  reset(o);
  int n = -1;
  EXPECT_EQ(cudaGetDeviceCount(&n), cudaErrorInsufficientDriver);
  EXPECT_EQ(n, -1);
  EXPECT_EQ(cudaSetDevice(0), cudaErrorInsufficientDriver);
}

}  // namespace
}  // namespace troupe::vgpu
