// Hogwild's shared array: overlapping additions interleave and may be lost, others are exact.
#include "runtime/sim/param_store.hpp"

#include <gtest/gtest.h>

#include "ops/tensor_values.hpp"
#include "runtime/sim/random.hpp"

namespace troupe::sim {
namespace {

using store_kind = param_store::kind;

class shared_parameters : public ::testing::Test {
 protected:
  shared_parameters() : dev_(make_cpu_device()) {}
  std::shared_ptr<tensor> filled(std::int64_t n, double v) {
    auto t = std::make_shared<tensor>(tensor::allocate(*dev_, {n}, dtype::f32));
    dev_->fill(v, *t);
    return t;
  }
  void all_of(param_store& s, std::uint32_t op) {
    while (!s.advance(op, dev_.get())) {
    }
  }
  std::vector<float> content(param_store& s, std::int64_t n) {
    auto into = std::make_shared<tensor>(tensor::declare({n}, dtype::f32));
    all_of(s, s.begin(store_kind::read, 0, into));
    const auto here = at_home(*dev_, *into);
    return {here.data<float>(), here.data<float>() + n};
  }
  std::unique_ptr<device> dev_;
};

TEST_F(shared_parameters, sequential_additions_lose_nothing) {
  param_store s;
  const std::int64_t n = 5000;
  all_of(s, s.begin(store_kind::write, 0, filled(n, 1)));
  for (int i = 0; i < 10; ++i) all_of(s, s.begin(store_kind::add, 0, filled(n, 2)));
  for (float x : content(s, n)) ASSERT_EQ(x, 21.0f);
  EXPECT_EQ(s.additions(), 50u);  // five chunks each
  EXPECT_EQ(s.lost(), 0u);
}

TEST_F(shared_parameters, simultaneous_additions_lose_one_of_two) {
  param_store s;
  all_of(s, s.begin(store_kind::write, 0, filled(3000, 0)));
  const auto a = s.begin(store_kind::add, 0, filled(3000, 1)), b = s.begin(store_kind::add, 0, filled(3000, 10));
  for (bool over = false; !over;) {
    s.advance(a, dev_.get());
    over = s.advance(b, dev_.get());
  }
  EXPECT_EQ(s.lost(), 3u);
  for (float x : content(s, 3000)) ASSERT_EQ(x, 10.0f) << "b stored last and had not loaded the sum of a";
}

TEST_F(shared_parameters, additions_one_chunk_apart_lose_nothing) {
  param_store s;
  all_of(s, s.begin(store_kind::write, 0, filled(4000, 0)));
  const auto a = s.begin(store_kind::add, 0, filled(4000, 1)), b = s.begin(store_kind::add, 0, filled(4000, 10));
  s.advance(a, dev_.get());
  s.advance(a, dev_.get());  // has stored chunk 0 and loaded chunk 1
  // a is always one chunk ahead: b loads the values that a has stored.
  for (int moment = 0; moment < 2; ++moment) s.advance(b, dev_.get()), s.advance(a, dev_.get());
  EXPECT_TRUE(s.advance(a, dev_.get()));
  all_of(s, b);
  EXPECT_EQ(s.additions(), 8u);
  for (float x : content(s, 4000)) ASSERT_EQ(x, 11.0f);
  EXPECT_EQ(s.lost(), 0u);
}

// The value of an element is a sum of some of the additions; the missing ones are counted as lost.
TEST_F(shared_parameters, missing_additions_are_counted_as_lost) {
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    random r(seed);
    param_store s, none;
    const std::int64_t n = 4096;
    all_of(s, s.begin(store_kind::write, 0, filled(n, 0)));
    auto same = std::make_shared<tensor>(tensor::declare({n}, dtype::f32));
    for (auto w = none.begin(store_kind::write, 0, same); !none.advance(w, nullptr);) {
    }
    std::vector<std::uint32_t> running, shadows;
    int begun = 0;
    while (begun < 8 || !running.empty()) {
      if (begun < 8 && (running.empty() || r.below(3) == 0)) {
        running.push_back(s.begin(store_kind::add, 0, filled(n, 1)));
        shadows.push_back(none.begin(store_kind::add, 0, same));
        ++begun;
      }
      const auto i = static_cast<std::ptrdiff_t>(r.below(running.size()));
      const bool over = s.advance(running[static_cast<std::size_t>(i)], dev_.get());
      EXPECT_EQ(none.advance(shadows[static_cast<std::size_t>(i)], nullptr), over);
      if (over) running.erase(running.begin() + i), shadows.erase(shadows.begin() + i);
    }
    double sum = 0;
    for (float x : content(s, n)) {
      ASSERT_GE(x, 1.0f);
      ASSERT_LE(x, 8.0f);
      sum += static_cast<double>(x);
    }
    // Four chunks, eight additions each. An overwritten addition may be counted once for each
    // addition that overwrites it.
    EXPECT_GE(static_cast<double>(s.lost()), 8.0 * 4 - sum / 1024) << "seed " << seed;
    EXPECT_EQ(s.lost() == 0, sum == 8.0 * 4096) << "seed " << seed;
    EXPECT_EQ(none.lost(), s.lost()) << "without maths the same losses are counted";
  }
}

}  // namespace
}  // namespace troupe::sim
