// Tests of the machine: results equal those of the CPU for every execution order, and every planted
// mistake is found for every seed.
#include <gtest/gtest.h>
#include <atomic>
#include <future>

#include "tests/apart/apart_device.hpp"

namespace troupe::apart {
namespace {

struct outcome {
  std::vector<float> values;
  double announced = 0;
  std::vector<std::string> findings;
};

// Two streams use each other's tensors, drop some, and report a number.
outcome run(std::uint64_t seed, planted fault) {
  const auto m = std::make_shared<machine>(seed);
  m->fault = fault;
  std::shared_ptr<device> maths = make_cpu_device();
  const std::shared_ptr<device> a = make_device(maths, m);
  const auto b = a->make_stream();
  const shape s{1000};
  auto x = tensor::allocate(*a, s, dtype::f32), y = tensor::allocate(*b, s, dtype::f32),
       sum = tensor::allocate(*a, {1}, dtype::f64);
  a->fill_gaussian({1, 2, 3}, 0, 1, x);
  b->fill(1.0, y);
  for (int i = 0; i < 20; ++i) {
    a->axpy(0.5, y, x);
    b->apply(binary::multiply, x, y, y);
    b->scale(0.25, y);
    auto between = tensor::allocate(*a, s, dtype::f32);
    a->copy(x, between);
    b->axpy(1.0, between, y);
    between = {};  // b may still read it
    auto next = tensor::allocate(*a, s, dtype::f32);
    a->fill(i, next);
    a->axpy(1e-3, next, x);
  }
  outcome r;
  a->begin_task();
  a->sum_squares(y, sum);
  a->later(sum, [&](double v) { r.announced = v; });
  a->finish_task();
  r.values.resize(1000);
  b->download(y, r.values.data());
  r.findings = m->findings();
  return r;
}

TEST(apart_machine, computes_the_same_bits_in_any_order) {
  const auto one = run(1, planted::none);
  ASSERT_GT(one.announced, 0);
  for (std::uint64_t seed = 2; seed < 100; ++seed) {
    const auto other = run(seed, planted::none);
    EXPECT_EQ(other.values, one.values) << seed;
    EXPECT_EQ(other.announced, one.announced) << seed;
    EXPECT_TRUE(other.findings.empty()) << seed << ": " << other.findings.front();
  }
}

TEST(apart_machine, finds_every_planted_mistake_with_every_seed) {
  for (const auto fault : {planted::read_does_not_wait, planted::write_does_not_wait, planted::reuse_does_not_wait})
    for (std::uint64_t seed = 1; seed < 50; ++seed)
      EXPECT_FALSE(run(seed, fault).findings.empty()) << static_cast<int>(fault) << ", seed " << seed;
}

TEST(apart_machine, finds_a_number_that_is_reported_too_early) {
  int found = 0;
  for (std::uint64_t seed = 1; seed < 50; ++seed) found += run(seed, planted::reported_too_early).findings.empty() ? 0 : 1;
  EXPECT_GT(found, 25) << "it may have been computed by chance";
}

TEST(apart_machine, host_access_to_device_memory_faults) {
  const auto m = std::make_shared<machine>(1);
  std::shared_ptr<device> maths = make_cpu_device();
  const auto d = make_device(maths, m);
  auto t = tensor::allocate(*d, {4}, dtype::f32);
  d->fill(1, t);
  const auto* p = reinterpret_cast<const volatile float*>(t.block()->data);
  EXPECT_DEATH((void)*p, "");
}

TEST(apart_machine, host_memory_is_read_and_never_written) {
  const auto m = std::make_shared<machine>(1);
  std::shared_ptr<device> maths = make_cpu_device();
  const auto d = make_device(maths, m);
  auto mine = tensor::allocate(*maths, {4}, dtype::f32), there = tensor::allocate(*d, {4}, dtype::f32);
  maths->fill(3, mine);
  d->fill(4, there);
  d->axpy(1.0, mine, there);
  EXPECT_THROW(d->axpy(1.0, there, mine), std::logic_error);
  d->begin_task();
  const auto home = brought_home(*d, there);
  d->finish_task();
  EXPECT_EQ(home.data<float>()[3], 7.0F);
  EXPECT_EQ(brought_home(*d, mine).raw(), mine.raw());
}

// Two devices of one machine: a tensor of one is fetched to the other, which waits for it and
// accesses no other memory of the first.
std::vector<std::string> between_two(std::uint64_t seed, planted fault, std::vector<float>& values) {
  const auto m = std::make_shared<machine>(seed);
  m->fault = fault;
  const std::shared_ptr<device> maths = make_cpu_device();
  const auto one = make_device(maths, m, 0), other = make_device(maths, m, 1);
  const shape s{100};
  auto x = tensor::allocate(*one, s, dtype::f32), there = tensor::allocate(*other, s, dtype::f32),
       sum = tensor::allocate(*other, s, dtype::f32);
  other->fill(0, sum);
  one->fill(0, x);
  auto ones = tensor::allocate(*one, s, dtype::f32);
  one->fill(1, ones);
  for (int i = 0; i < 10; ++i) {
    one->axpy(1.0, ones, x);
    one->fetch(x, there);
    other->axpy(1.0, there, sum);
  }
  EXPECT_THROW(other->axpy(1.0, x, sum), std::logic_error);
  EXPECT_THROW(one->fill(0, sum), std::logic_error);
  EXPECT_THROW(other->fetch(x, sum), std::logic_error) << "only the owning device may send a tensor";
  values.resize(100);
  other->download(sum, values.data());
  return m->findings();
}

TEST(apart_machine, memory_of_another_device_is_fetched_and_not_accessed) {
  for (std::uint64_t seed = 1; seed < 50; ++seed) {
    std::vector<float> values;
    const auto findings = between_two(seed, planted::none, values);
    EXPECT_TRUE(findings.empty()) << seed << ": " << findings.front();
    EXPECT_EQ(values, std::vector<float>(100, 55.0F)) << seed;
    EXPECT_FALSE(between_two(seed, planted::read_does_not_wait, values).empty()) << seed;
    EXPECT_FALSE(between_two(seed, planted::write_does_not_wait, values).empty()) << seed;
  }
}

TEST(apart_machine, a_task_is_over_when_its_numbers_are_known) {
  const auto m = std::make_shared<machine>(7);
  std::shared_ptr<device> maths = make_cpu_device();
  const std::shared_ptr<device> d = make_device(maths, m);
  auto t = tensor::allocate(*d, {1}, dtype::f32);
  for (int i = 0; i < 50; ++i) {
    double announced = -1;
    d->begin_task();
    d->fill(i, t);
    d->later(t, [&](double v) { announced = v; });
    EXPECT_EQ(announced, -1) << "not while the task is running";
    if (!d->end_task()) {
      std::promise<void> over;
      d->when_over([&](const std::string&) { over.set_value(); });
      over.get_future().wait();
    }
    EXPECT_EQ(announced, i);
  }
}

// A role ends while a task of its stream is not over: when_over() and wait_over() wait for the same
// numbers, each number is reported once, and the stream is dropped before when_over() has reported
// that the task is over.
TEST(apart_machine, stream_dropped_after_wait_over_is_not_used_again) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    const auto m = std::make_shared<machine>(seed);
    std::shared_ptr<device> maths = make_cpu_device();
    const std::shared_ptr<device> d = make_device(maths, m);
    auto stream = d->make_stream();
    auto t = tensor::allocate(*stream, {1}, dtype::f32);
    std::promise<void> goes_on, over;
    const bool holds_back = seed % 2 == 0;  // otherwise both wait at the same time
    if (holds_back) m->when_done([f = goes_on.get_future().share()] { f.wait(); });
    std::atomic<int> announced = 0;
    stream->begin_task();
    for (int i = 0; i < 20; ++i) {
      stream->fill(i, t);
      stream->later(t, [&](double) { ++announced; });
    }
    const bool ended = stream->end_task();
    if (!ended) stream->when_over([&](const std::string&) { over.set_value(); });
    stream->wait_over();
    EXPECT_EQ(announced, 20);
    stream.reset();
    if (holds_back) goes_on.set_value();
    if (!ended) over.get_future().wait();
    EXPECT_EQ(announced, 20);
  }
}

}  // namespace
}  // namespace troupe::apart
