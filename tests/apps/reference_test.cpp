// `troupe reference`: the pages of the job file and of the cluster file. Their contents are checked
// by tests/node/reference_test.cpp.
#include "tests/apps/child.hpp"

namespace troupe {
namespace {

using namespace testing_apps;

class reference_command : public command_test {};

TEST_F(reference_command, prints_the_keys_and_the_entries_of_plugins) {
  const auto job = troupe({"reference", "job"});
  EXPECT_EQ(job.code, 0) << job.err;
  EXPECT_EQ(job.out.rfind("# The job file\n", 0), 0u);
  EXPECT_EQ(job.out.find("### twice"), std::string::npos);
  const auto more = troupe({"reference", "job", "--plugin", std::string(TROUPE_PLUGIN_DIR) + "/libtest_plugin_good.so"});
  EXPECT_NE(more.out.find("### twice"), std::string::npos);
  EXPECT_EQ(objects(troupe({"reference", "cluster", "--json"}).out).at(0)["of"], "cluster");
  const auto wrong = troupe({"reference", "jop"});
  EXPECT_EQ(wrong.code, 2);
  EXPECT_NE(wrong.err.find("did you mean 'job'?"), std::string::npos) << wrong.err;
}

}  // namespace
}  // namespace troupe
