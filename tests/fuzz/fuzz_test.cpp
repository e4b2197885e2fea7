// Every target with its sound inputs and mutations of them: without libFuzzer, in any build (promise 20, docs/promises.md).
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tests/fuzz/target.hpp"
#include "tests/mutated.hpp"
#include "tests/runtime/record_temp_dir.hpp"

namespace troupe::fuzz {
namespace {

class fuzz_targets : public testing::TestWithParam<std::string> {
 protected:
  static const target& of(const std::string& name) {
    return *std::find_if(targets().begin(), targets().end(), [&](const target& t) { return t.name == name; });
  }
};

input input_of(const std::string& s) { return {reinterpret_cast<const std::uint8_t*>(s.data()), s.size()}; }

TEST_P(fuzz_targets, answers_whatever_it_is_given) {
  const auto& t = of(GetParam());
  auto sound = t.sound();
  ASSERT_FALSE(sound.empty());
  t.one({});
  for (const auto& s : sound) t.one(input_of(s));
  counter_rng random(20);
  for (auto n = test::fuzz_inputs(5000); n > 0; --n) {
    // Of an own allocation, so that a step beyond it is one.
    const auto b = test::mutated(sound, random);
    const std::vector<std::uint8_t> exact(b.begin(), b.end());
    t.one(exact);
  }
}

std::vector<std::string> names() {
  return {"checkpoint", "cluster_file", "control",  "csv",     "exchange", "frame",  "hello",
          "idx",        "image",        "job_file", "journal", "message",  "packed", "safetensors"};
}
INSTANTIATE_TEST_SUITE_P(all, fuzz_targets, testing::ValuesIn(names()), [](const auto& i) { return i.param; });

TEST(fuzz, these_are_all_targets) {
  std::set<std::string> linked;
  for (const auto& t : targets()) EXPECT_TRUE(linked.insert(t.name).second) << t.name;
  const auto all = names();
  EXPECT_EQ(linked, std::set<std::string>(all.begin(), all.end()));
}

}  // namespace
}  // namespace troupe::fuzz
