// Promise 15 (docs/promises.md): in a cgroup of 256 MB a too large job is refused with an error
// that names the largest part, instead of being killed by the kernel. A job that fits runs. The
// test is skipped if no cgroup can be created.
#include "tests/cgroup.hpp"
#include "tests/apps/child.hpp"

namespace troupe {
namespace {

using namespace testing_apps;

class in_a_cgroup : public command_test {
 protected:
  outcome run(const std::vector<std::string>& words) {
    auto all = group_.step_into();
    all.erase(all.begin());
    all.push_back(troupe_program());
    all.insert(all.end(), words.begin(), words.end());
    return child("/bin/sh", all, folder_).wait();
  }
  small_group group_{256L << 20};
};

TEST_F(in_a_cgroup, refuses_a_too_large_job_by_name_and_runs_one_that_fits) {
  if (group_.folder().empty()) GTEST_SKIP() << "cannot create a cgroup";
  const auto job = write("job.toml", tiny_job());
  const auto fits = run({"train", job, "--json"});
  EXPECT_EQ(fits.code, 0) << fits.out << fits.err;
  for (const char* command : {"check", "train"}) {
    const auto o = run({command, job, "--set", "layer.ip1.outputs=1000000"});
    EXPECT_EQ(o.code, 2) << command << ": " << o.out << o.err;
    EXPECT_NE(o.err.find("layer 'ip1'"), std::string::npos) << o.err;
    EXPECT_NE(o.err.find("256.0 MiB"), std::string::npos) << o.err;
  }
}

}  // namespace
}  // namespace troupe
