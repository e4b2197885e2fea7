// Sums over several GPUs (device::sum_across) by the NCCL of the virtual GPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <numeric>

#include "ops/cuda/bf16_stream.hpp"
#include "ops/cuda/nccl_api.hpp"
#include "tests/vgpu/device_state.hpp"

namespace troupe::vgpu {
namespace {

using ::testing::HasSubstr;

struct gpus_of_a_node {
  std::vector<std::shared_ptr<device>> streams;
  explicit gpus_of_a_node(int count, std::uint64_t seed = 1) {
    options o;
    o.devices = count, o.seed = seed;
    reset(o);
    for (int i = 0; i < count; ++i) streams.push_back(cuda::make_stream_of(std::make_shared<cuda::gpu>(i)));
  }
  ~gpus_of_a_node() {
    streams.clear();
    EXPECT_EQ(counted().streams, 0u);
    for (const auto& f : findings()) ADD_FAILURE() << f;
  }
};

// A tensor whose last write may not have run yet: element i is factor (i + 1).
tensor counting(device& d, std::int64_t count, double factor, dtype t) {
  std::vector<double> values(static_cast<std::size_t>(count));
  std::iota(values.begin(), values.end(), 1.0);
  auto wide = tensor::allocate(d, {count}, dtype::f64), x = tensor::allocate(d, {count}, t);
  d.upload(values.data(), wide);
  d.copy(wide, x);
  d.scale(factor, x);
  return x;
}

std::vector<double> values_of(device& d, const tensor& t) {
  auto wide = tensor::allocate(d, t.dims(), dtype::f64);
  d.copy(t, wide);
  std::vector<double> values(static_cast<std::size_t>(t.count()));
  d.download(wide, values.data());
  return values;
}

// Expects factor (i + 1) in element i.
void expect_counting(const std::vector<double>& got, double factor) {
  for (std::size_t i = 0; i < got.size(); ++i) ASSERT_DOUBLE_EQ(got[i], factor * static_cast<double>(i + 1)) << i;
}

TEST(gpu_sum_across, adds_one_part_of_each_gpu_for_any_order_of_operations) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed)
    for (const auto type : {dtype::f32, dtype::f64})
      for (const std::int64_t count : {1, 7, 1000}) {
        gpus_of_a_node n(3, seed);
        tensors parts;
        for (int i = 0; i < 3; ++i) parts.push_back(counting(*n.streams[static_cast<std::size_t>(i)], count, i + 1, type));
        auto& root = *n.streams[seed % 3];
        auto out = tensor::allocate(root, {count}, type);
        root.fill(NAN, out);
        root.sum_across(parts, out);
        for (int i = 0; i < 3; ++i) n.streams[static_cast<std::size_t>(i)]->fill(0, parts[static_cast<std::size_t>(i)]);
        root.scale(2, out);
        expect_counting(values_of(root, out), 12);
      }
}

TEST(gpu_sum_across, adds_several_parts_of_a_gpu_and_parts_in_host_memory) {
  gpus_of_a_node n(2);
  auto &a = *n.streams[0], &b = *n.streams[1];
  auto out = tensor::allocate(a, {33}, dtype::f32);
  a.sum_across({counting(a, 33, 1, dtype::f32), counting(b, 33, 2, dtype::f32), counting(b, 33, 4, dtype::f32),
                counting(a.host(), 33, 8, dtype::f32)},
               out);
  expect_counting(values_of(a, out), 15);
}

TEST(gpu_sum_across, adds_on_the_gpu_of_the_result_when_it_has_no_part) {
  gpus_of_a_node n(3);
  auto out = tensor::allocate(*n.streams[2], {5}, dtype::f64);
  n.streams[2]->sum_across({counting(*n.streams[0], 5, 1, dtype::f64), counting(*n.streams[1], 5, 2, dtype::f64)}, out);
  expect_counting(values_of(*n.streams[2], out), 3);
}

TEST(gpu_sum_across, names_nccl_when_it_is_not_installed) {
  setenv("TROUPE_VGPU_NO_NCCL", "1", 1);
  gpus_of_a_node n(2);
  auto out = tensor::allocate(*n.streams[0], {1}, dtype::f32);
  try {
    n.streams[0]->sum_across({counting(*n.streams[0], 1, 1, dtype::f32), counting(*n.streams[1], 1, 1, dtype::f32)}, out);
    ADD_FAILURE() << "no error";
  } catch (const std::runtime_error& e) {
    EXPECT_THAT(e.what(), HasSubstr("reducer nccl: NCCL cannot be loaded"));
  }
  unsetenv("TROUPE_VGPU_NO_NCCL");
}

// The virtual NCCL itself: what it must find.
struct raw_ranks {
  std::vector<cuda::nccl_comm> comms{2};
  std::vector<cudaStream_t> streams{2};
  std::vector<void*> memory{2};
  explicit raw_ranks(std::uint64_t seed) {
    options o;
    o.devices = 2, o.seed = seed;
    reset(o);
    comms.resize(2), streams.resize(2), memory.resize(2);
    const int devices[] = {0, 1};
    EXPECT_EQ(cuda::nccl().comm_init_all(comms.data(), 2, devices), cuda::nccl_success);
    for (int i = 0; i < 2; ++i) {
      cudaSetDevice(i);
      cudaStreamCreateWithFlags(&streams[static_cast<std::size_t>(i)], cudaStreamNonBlocking);
      cudaMalloc(&memory[static_cast<std::size_t>(i)], 64);
    }
    cudaSetDevice(0);
  }
  ~raw_ranks() {
    cudaDeviceSynchronize();
    for (auto c : comms) cuda::nccl().comm_destroy(c);
  }
  int reduce(std::size_t rank, std::size_t count) {
    return cuda::nccl().reduce(memory[rank], memory[0], count, cuda::nccl_f32, cuda::nccl_sum, 0, comms[rank], streams[rank]);
  }
};

TEST(virtual_nccl, finds_a_sum_that_does_not_wait_for_its_part) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    raw_ranks r(seed);
    cudaStream_t other = nullptr;
    cudaSetDevice(1);
    cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking);
    cudaMemsetAsync(r.memory[0], 0, 64, r.streams[0]);
    cudaMemsetAsync(r.memory[1], 0, 64, other);
    cudaSetDevice(0);
    cuda::nccl().group_start();
    r.reduce(0, 16), r.reduce(1, 16);
    EXPECT_EQ(cuda::nccl().group_end(), cuda::nccl_success);
    EXPECT_EQ(findings().size(), 1u);
  }
}

TEST(virtual_nccl, finds_groups_that_nccl_would_hang_in) {
  raw_ranks r(1);
  cuda::nccl().group_start();
  r.reduce(1, 16);
  EXPECT_NE(cuda::nccl().group_end(), cuda::nccl_success);
  cuda::nccl().group_start();
  r.reduce(0, 16), r.reduce(1, 8);
  EXPECT_NE(cuda::nccl().group_end(), cuda::nccl_success);
  EXPECT_EQ(findings().size(), 2u);
}

}  // namespace
}  // namespace troupe::vgpu
