// `troupe check` of what is no mistake, and cannot run all the same.
#include "tests/apps/child.hpp"

namespace troupe {
namespace {

using namespace testing_apps;

class check : public command_test {};

TEST_F(check, refuses_what_this_machine_cannot_hold) {
  const auto job = write("job.toml", tiny_job());
  const std::vector<std::string> set{"--set", "data.examples=100000000", "--set", "data.batch=100000000",
                                     "--set", "data.shape=[3,128,128]"};
  std::vector<std::string> words{"check", job, "--json"};
  words.insert(words.end(), set.begin(), set.end());
  const auto o = troupe(words);
  EXPECT_EQ(o.code, 2) << o.out;
  const auto errors = of_kind(objects(o.out), "error");
  ASSERT_EQ(errors.size(), 1u) << o.out;
  EXPECT_NE(errors[0]["where"].get<std::string>().find("data.batch"), std::string::npos) << errors[0];
  EXPECT_NE(errors[0]["message"].get<std::string>().find("this machine has"), std::string::npos) << errors[0];
  // What the file says itself has its place there.
  auto text = tiny_job();
  text.replace(text.find("batch = 16"), 10, "batch = 100000000");
  text.replace(text.find("examples = 320"), 14, "examples = 100000000");
  text.replace(text.find("[1, 8, 8]"), 9, "[3, 128, 128]");
  const auto big = write("big.toml", text);
  EXPECT_EQ(troupe({"check", big}).err.rfind(big + ":10:1: ", 0), 0u) << troupe({"check", big}).err;
}

}  // namespace
}  // namespace troupe
