#include "ops/tensor.hpp"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <thread>

#include "tests/ops/support.hpp"

namespace troupe {
namespace {

TEST(tensor, goes_from_empty_to_declared_to_backed) {
  const auto dev = make_cpu_device();
  tensor t;
  EXPECT_FALSE(t);
  t = tensor::declare(shape{2, 3}, dtype::f32);
  EXPECT_TRUE(t && !t.backed());
  EXPECT_EQ(t.bytes(), 24U);
  t.back(*dev);
  EXPECT_TRUE(t.backed());
  const void* memory = t.raw();
  t.back(*dev);
  EXPECT_EQ(t.raw(), memory);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory) % 64, 0U);
}

TEST(tensor, shares_memory_between_handles_slices_and_shapes) {
  const auto dev = make_cpu_device();
  tensor t = test::tensor_of<double>(*dev, {2, 3}, {0, 1, 2, 3, 4, 5});
  const tensor row = t.slice(3, shape{3}), flat = t.reshaped(shape{6});
  EXPECT_EQ(test::values_of(row), (std::vector<double>{3, 4, 5}));
  t.mutable_data<double>()[4] = 40;
  EXPECT_EQ(row.data<double>()[1], 40);
  EXPECT_EQ(flat.data<double>()[4], 40);
  EXPECT_TRUE(row.same_storage(t));
}

TEST(tensor, borrows_memory_of_the_caller) {
  float values[4] = {1, 2, 3, 4};
  tensor t = tensor::borrow(values, shape{4}, dtype::f32);
  t.mutable_data<float>()[2] = 7;
  EXPECT_EQ(values[2], 7);
}

TEST(tensor, freezes_every_handle_on_its_memory) {
  const auto dev = make_cpu_device();
  tensor t = tensor::allocate(*dev, shape{4}, dtype::f32);
  tensor other = t.slice(1, shape{2});
  t.freeze();
  EXPECT_TRUE(other.frozen());
#ifndef NDEBUG
  EXPECT_DEATH(other.mutable_data<float>(), "frozen");
#endif
  t = tensor();
  other = tensor();
  EXPECT_FALSE(tensor::allocate(*dev, shape{4}, dtype::f32).frozen());  // a reused block is not frozen
}

TEST(pool, reuses_blocks_without_further_allocation) {
  const auto dev = make_cpu_device();
  const auto step = [&] {
    for (std::int64_t n : {1, 100, 5000, 100000}) {
      tensor a = tensor::allocate(*dev, shape{n}, dtype::f32), b = tensor::allocate(*dev, shape{n}, dtype::f64);
      a.mutable_data<float>()[n - 1] = 1;
      b.mutable_data<double>()[n - 1] = 1;
    }
  };
  step();
  const auto first = dev->pool();
  EXPECT_EQ(first.bytes_in_use, 0U);
  for (int i = 0; i < 10; ++i) step();
  EXPECT_EQ(dev->pool().blocks_made, first.blocks_made);
  EXPECT_EQ(dev->pool().bytes_held, first.bytes_held);
}

TEST(pool, outlives_its_device_while_tensors_exist) {
  auto dev = make_cpu_device();
  tensor t = tensor::allocate(*dev, shape{1000}, dtype::f32);
  dev.reset();
  t.mutable_data<float>()[999] = 1;
  EXPECT_EQ(t.data<float>()[999], 1);
}

TEST(pool, serves_several_threads) {
  const auto dev = make_cpu_device();
  const auto work = [&](std::int32_t mark) {
    for (int i = 0; i < 2000; ++i) {
      tensor t = tensor::allocate(*dev, shape{i % 50 + 1}, dtype::i32);
      dev->fill(mark, t);
      for (std::int64_t j = 0; j < t.count(); ++j) ASSERT_EQ(t.data<std::int32_t>()[j], mark);
    }
  };
  std::thread one(work, 1), two(work, 2);
  one.join();
  two.join();
  EXPECT_EQ(dev->pool().bytes_in_use, 0U);
}

TEST(tensor, access_with_a_wrong_type_throws_in_every_build) {
  const auto d = make_cpu_device();
  auto values = tensor::allocate(*d, {2}, dtype::f32);
  const auto message = [](auto f) -> std::string {
    try {
      f();
    } catch (const std::logic_error& e) {
      return e.what();
    }
    return "no error";
  };
  EXPECT_EQ(message([&] { return values.data<std::int32_t>(); }), "a tensor (2) of f32 is read as i32");
  EXPECT_EQ(message([&] { return values.mutable_data<double>(); }), "a tensor (2) of f32 is read as f64");
  EXPECT_EQ(message([&] { return values.data<float>(); }), "no error");
  EXPECT_EQ(message([&] { return tensor::declare({2}, dtype::bf16).data<float>(); }), "a tensor (2) of bf16 is read as f32");
}

}  // namespace
}  // namespace troupe
