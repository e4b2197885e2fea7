// Streams of the CUDA backend on the virtual GPU: lifetime.
#include <gtest/gtest.h>

#include <future>

#include "ops/cuda/bf16_stream.hpp"
#include "tests/vgpu/vgpu.hpp"

namespace troupe::vgpu {
namespace {

// The function given to when_over() holds the stream longer than its owner does, so the thread that
// calls the function destroys the stream and the GPU.
TEST(gpu_stream, can_be_destroyed_by_the_function_that_waits_for_its_task) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    options o;
    o.seed = seed;
    reset(o);
    std::shared_ptr<device> s = cuda::make_stream_of(std::make_shared<cuda::gpu>(0));
    std::promise<void> dropped, destroyed;
    double reported = 0;
    s->begin_task();
    {
      auto t = tensor::allocate(*s, {1}, dtype::f32);
      s->fill(7, t);
      s->later(t, [&](double v) { reported = v; });
    }
    ASSERT_FALSE(s->end_task());
    s->when_over([last = s, wait = dropped.get_future().share(), &destroyed](const std::string&) mutable {
      wait.wait();
      last.reset();
      destroyed.set_value();
    });
    s.reset();
    dropped.set_value();
    destroyed.get_future().wait();
    EXPECT_EQ(reported, 7);
    EXPECT_EQ(counted().streams, 0u);
    for (const auto& f : findings()) ADD_FAILURE() << f;
  }
}

}  // namespace
}  // namespace troupe::vgpu
