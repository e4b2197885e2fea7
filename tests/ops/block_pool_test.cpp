// Memory that a pool retains for reuse, and its release to the system.
#include "ops/cpu/block_pool.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace troupe {
namespace {

constexpr std::size_t large = 1 << 20;

std::vector<std::shared_ptr<storage>> take(cpu::block_pool& pool, int n) {
  std::vector<std::shared_ptr<storage>> blocks;
  for (int i = 0; i < n; ++i) blocks.push_back(pool.allocate(large));
  return blocks;
}

TEST(block_pool, releases_blocks_that_were_unused_between_two_calls) {
  const auto pool = std::make_shared<cpu::block_pool>();
  take(*pool, 10);
  const auto peak = pool->statistics().bytes_held;
  EXPECT_GE(peak, 10 * large);
  EXPECT_EQ(pool->release_unused(), 0U) << "all blocks were in use since the last call";
  take(*pool, 3);
  EXPECT_EQ(pool->release_unused(), peak / 10 * 7) << "three blocks were used again";
  EXPECT_EQ(pool->statistics().bytes_held, peak / 10 * 3);
  EXPECT_EQ(pool->release_unused(), peak / 10 * 3);
  EXPECT_EQ(pool->statistics().bytes_held, 0U);
  EXPECT_EQ(pool->release_unused(), 0U);
}

TEST(block_pool, does_not_release_blocks_in_use) {
  const auto pool = std::make_shared<cpu::block_pool>();
  auto held = take(*pool, 4);
  held[0]->data[large - 1] = std::byte{7};
  held.resize(1);
  for (int i = 0; i < 2; ++i) cpu::block_pool::release_unused_of_all();
  EXPECT_EQ(pool->statistics().bytes_held, pool->statistics().bytes_in_use);
  EXPECT_EQ(held[0]->data[large - 1], std::byte{7});
  held.clear();
  for (int i = 0; i < 2; ++i) cpu::block_pool::release_unused_of_all();
  EXPECT_EQ(pool->statistics().bytes_held, 0U);
}

}  // namespace
}  // namespace troupe
