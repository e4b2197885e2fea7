// Tensors in the memory of an arena: their region, an exhausted arena, and the return of all
// memory.
#include "ops/arena.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "ops/cpu/block_pool.hpp"
#include "ops/region_of.hpp"
#include "tests/ops/mapped_arena.hpp"

namespace troupe {
namespace {

using test::mapped_arena;

bool within(const memory_region& r, const std::byte* p, std::size_t n) { return p >= r.base && p + n <= r.base + r.bytes; }

TEST(arena, blocks_are_in_the_arena_and_know_their_region) {
  const auto from = std::make_shared<mapped_arena>(1 << 20);
  const auto pool = std::make_shared<cpu::block_pool>(from);
  for (const std::size_t n : {0, 1, 64, 300, 5000, 100000}) {
    const auto s = pool->allocate(n);
    ASSERT_TRUE(within(*from->region(), s->data, n + 64)) << n;
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(s->data) % 64, 0U);
    EXPECT_EQ(region_of(tensor::view(s, 0, {1}, dtype::u8)), from->region());
    std::memset(s->data, 7, n + 64);
    EXPECT_FALSE(within(*from->region(), reinterpret_cast<const std::byte*>(s.get()), 1)) << "bookkeeping is outside the arena";
  }
  EXPECT_EQ(pool->made_beyond(), 0U);
}

TEST(arena, a_tensor_reports_its_region_and_keeps_it_alive) {
  auto from = std::make_shared<mapped_arena>(1 << 20);
  auto pool = std::make_shared<cpu::block_pool>(from);
  const tensor t = tensor::view(pool->allocate(400), 0, {100}, dtype::f32), tail = t.slice(60, {40});
  const auto r = region_of(tail);
  ASSERT_EQ(r, from->region());
  const auto offset = static_cast<std::size_t>(static_cast<const std::byte*>(tail.raw()) - r->base);
  EXPECT_TRUE(r->holds(offset, tail.bytes()));
  EXPECT_EQ(offset % 64, 240U % 64);
  const std::weak_ptr<mapped_arena> watch = from;
  from.reset();
  pool.reset();
  EXPECT_FALSE(watch.expired()) << "the tensor keeps the pool alive, and the pool its arena";
  EXPECT_EQ(region_of(tensor::view(std::make_shared<cpu::block_pool>()->allocate(400), 0, {100}, dtype::f32)), nullptr);
  EXPECT_EQ(region_of(tensor()), nullptr);
}

TEST(arena, an_exhausted_arena_falls_back_to_the_heap_and_counts_it) {
  const auto from = std::make_shared<mapped_arena>(1 << 16);
  {
    const auto pool = std::make_shared<cpu::block_pool>(from);
    std::vector<std::shared_ptr<storage>> held;
    for (int i = 0; i < 10; ++i) held.push_back(pool->allocate(12000));
    std::size_t inside = 0;
    for (const auto& s : held) {
      std::memset(s->data, 1, 12000);
      EXPECT_EQ(region_of(tensor::view(s, 0, {1}, dtype::u8)) != nullptr, within(*from->region(), s->data, 12000));
      inside += within(*from->region(), s->data, 12000) ? 1 : 0;
    }
    EXPECT_EQ(inside, 5U);
    EXPECT_EQ(pool->made_beyond(), 5U);
    EXPECT_EQ(from->taken(), inside);
    held.clear();
    EXPECT_EQ(from->taken(), inside) << "kept for reuse";
    const auto again = pool->allocate(12000);
    EXPECT_EQ(pool->statistics().blocks_reused, 1U);
  }
  EXPECT_TRUE(from->whole()) << "all memory was returned when the pool was destroyed";
}

TEST(arena, region_holds_checks_offset_and_length) {
  test::mapped_region r(4096);
  EXPECT_TRUE(r.holds(0, 4096) && r.holds(4096, 0) && r.holds(4095, 1));
  EXPECT_FALSE(r.holds(4095, 2) || r.holds(4097, 0) || r.holds(1, ~std::size_t{0}) || r.holds(~std::size_t{0}, 2));
}

}  // namespace
}  // namespace troupe
