// `troupe check` of valid jobs that need more memory than this machine has.
#include "tests/apps/child.hpp"

namespace troupe {
namespace {

using namespace testing_apps;

class check : public command_test {};

TEST_F(check, refuses_a_job_that_exceeds_this_machines_memory) {
  const auto job = write("job.toml", tiny_job());
  const std::vector<std::string> set{"--set", "data.examples=100000000", "--set", "data.batch=100000000",
                                     "--set", "data.shape=[3,32,32]"};
  std::vector<std::string> words{"check", job, "--json"};
  words.insert(words.end(), set.begin(), set.end());
  const auto o = troupe(words);
  EXPECT_EQ(o.code, 2) << o.out;
  const auto errors = of_kind(objects(o.out), "error");
  ASSERT_EQ(errors.size(), 1u) << o.out;
  EXPECT_NE(errors[0]["where"].get<std::string>().find("data.batch"), std::string::npos) << errors[0];
  EXPECT_NE(errors[0]["message"].get<std::string>().find("this machine has"), std::string::npos) << errors[0];
  // The error is at the position of the key in the file.
  auto text = tiny_job();
  text.replace(text.find("batch = 16"), 10, "batch = 100000000");
  text.replace(text.find("examples = 320"), 14, "examples = 100000000");
  text.replace(text.find("[1, 8, 8]"), 9, "[3, 32, 32]");
  const auto big = write("big.toml", text);
  EXPECT_EQ(troupe({"check", big}).err.rfind(big + ":10:1: ", 0), 0u) << troupe({"check", big}).err;
}

// `troupe train` and `troupe time` also refuse such jobs, before they allocate memory; the error
// names layer and shape.
TEST_F(check, and_train_and_time_refuse_too_large_jobs_before_allocating) {
  auto text = tiny_job();
  text.replace(text.find("outputs = 16"), 12, "outputs = 999999999");
  const auto job = write("wide.toml", text);
  for (const char* command : {"check", "train", "time"}) {
    const auto o = troupe({command, job});
    EXPECT_EQ(o.code, 2) << command << o.out;
    EXPECT_EQ(o.err.rfind(job + ":11:1: layer 'ip1': the job would hold about ", 0), 0u) << o.err;
    EXPECT_NE(o.err.find("its parameter 'weight' 999999999x64, 238.4 GiB"), std::string::npos) << o.err;
  }
}

}  // namespace
}  // namespace troupe
