// The share of the processor that this process may use.
#include "ops/cpu/processor.hpp"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <map>

namespace troupe::cpu {
namespace {

double cores_with(const std::map<std::string, std::string>& files) {
  return cgroup_cores_by([&](const std::string& file) {
    const auto at = files.find(file);
    return at == files.end() ? std::string() : at->second;
  });
}

TEST(processor, the_least_quota_of_the_cgroups_up_to_the_root_counts) {
  EXPECT_EQ(cores_with({}), 0);
  EXPECT_EQ(cores_with({{"/proc/self/cgroup", "0::/a/b\n"}, {"/sys/fs/cgroup/a/b/cpu.max", "max 100000\n"}}), 0);
  EXPECT_EQ(cores_with({{"/proc/self/cgroup", "0::/a/b\n"},
                        {"/sys/fs/cgroup/a/b/cpu.max", "400000 100000\n"},
                        {"/sys/fs/cgroup/a/cpu.max", "150000 100000\n"}}),
            1.5);
  EXPECT_EQ(cores_with({{"/proc/self/cgroup", "4:memory:/x\n3:cpu,cpuacct:/c\n"},
                        {"/sys/fs/cgroup/cpu/c/cpu.cfs_quota_us", "-1\n"},
                        {"/sys/fs/cgroup/cpu/c/cpu.cfs_period_us", "100000\n"},
                        {"/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "200000\n"},
                        {"/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"}}),
            2);
  for (const char* controllers : {"cpu", "cpuacct,cpu", "cpuset,cpu,cpuacct"})
    EXPECT_EQ(cores_with({{"/proc/self/cgroup", std::string("3:") + controllers + ":/c\n"},
                          {"/sys/fs/cgroup/cpu/c/cpu.cfs_quota_us", "300000\n"},
                          {"/sys/fs/cgroup/cpu/c/cpu.cfs_period_us", "100000\n"}}),
              3)
        << controllers;
  EXPECT_EQ(cores_with({{"/proc/self/cgroup", "3:cpuset,cpuacct:/cpu,\n"},
                        {"/sys/fs/cgroup/cpu/cpu,/cpu.cfs_quota_us", "300000\n"},
                        {"/sys/fs/cgroup/cpu/cpu,/cpu.cfs_period_us", "100000\n"}}),
            0)
      << "another controller";
  EXPECT_EQ(cores_with({{"/proc/self/cgroup", "0::/a\n"}, {"/sys/fs/cgroup/a/cpu.max", "soon 0\n"}}), 0);
}

// In a child process, whose affinity ends with it.
TEST(processor, a_process_that_is_bound_to_one_core_uses_one_thread) {
  const pid_t pid = fork();
  if (pid == 0) {
    cpu_set_t one;
    if (sched_getaffinity(0, sizeof one, &one) != 0) _exit(2);
    int first = 0;
    while (!CPU_ISSET(first, &one)) ++first;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    if (sched_setaffinity(0, sizeof one, &one) != 0) _exit(3);
    _exit(usable_threads() == 1 ? 0 : 1);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_GE(usable_threads(), 1u);
}

}  // namespace
}  // namespace troupe::cpu
