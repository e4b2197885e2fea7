// The machine's memory as read from the system's files, and jobs that would hold more.
#include "runtime/node/machine_memory.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>

#include "tests/error_text.hpp"
#include "tests/node/job_fixture.hpp"

namespace troupe {
namespace {

using ::testing::HasSubstr;

using tree = std::map<std::string, std::string>;

process_memory memory_by(const tree& files) {
  return process_memory_by([&](const std::string& file) -> std::optional<std::string> {
    const auto at = files.find(file);
    if (at == files.end()) return std::nullopt;
    return at->second;
  });
}

struct memory_limit {
  double bytes = 0;
  std::string file;
};

// The limit that `files` set for a process in `cgroups` (the text of /proc/self/cgroup).
std::optional<memory_limit> limit_of(const std::string& cgroups, tree files) {
  files["/proc/self/cgroup"] = cgroups;
  const auto m = memory_by(files);
  if (m.total == 0) return std::nullopt;
  const auto open = m.of.find('('), close = m.of.find(')');
  return memory_limit{static_cast<double>(m.total), m.of.substr(open + 1, close - open - 1)};
}

TEST(machine_memory, limit_of_a_cgroup_v2_is_the_least_along_its_path) {
  const std::string here = "0::/system.slice/troupe.service/job\n";
  const tree files{{"/sys/fs/cgroup/system.slice/troupe.service/job/memory.max", "max\n"},
                   {"/sys/fs/cgroup/system.slice/troupe.service/memory.max", "268435456\n"},
                   {"/sys/fs/cgroup/system.slice/memory.max", "1073741824\n"}};
  const auto l = limit_of(here, files);
  ASSERT_TRUE(l);
  EXPECT_EQ(l->bytes, 268435456);
  EXPECT_EQ(l->file, "/sys/fs/cgroup/system.slice/troupe.service/memory.max");
  EXPECT_FALSE(limit_of(here, {{"/sys/fs/cgroup/system.slice/memory.max", "max\n"}}));
  EXPECT_FALSE(limit_of(here, {}));
}

TEST(machine_memory, processes_side_by_side_share_what_is_left) {
  process_memory m;
  m.total = 900, m.left = 600, m.of = "this machine has";
  EXPECT_EQ(shared_alike(m, 1).left, 600u);
  EXPECT_EQ(shared_alike(m, 3).left, 200u);
  EXPECT_EQ(shared_alike(m, 0).left, 600u);
  EXPECT_EQ(shared_alike(m, 3).total, 900u);
  m.alone = true;
  EXPECT_EQ(shared_alike(m, 3).left, 600u);
}

TEST(machine_memory, counts_processes_of_the_same_program_in_the_same_cgroup) {
  namespace fs = std::filesystem;
  std::string name = (fs::temp_directory_path() / "troupe_proc_XXXXXX").string();
  ASSERT_NE(mkdtemp(name.data()), nullptr);
  const fs::path proc = name;
  const auto process = [&](const std::string& pid, const char* program, const char* cgroup) {
    fs::create_directories(proc / pid);
    fs::create_symlink(program, proc / pid / "exe");
    std::ofstream(proc / pid / "cgroup") << cgroup;
  };
  EXPECT_EQ(processes_of_this_program(name), 1u) << "there is no /proc";
  process("self", "/bin/trouped", "0::/a\n");
  EXPECT_EQ(processes_of_this_program(name), 1u);
  process("10", "/bin/trouped", "0::/a\n");
  process("11", "/bin/trouped", "0::/a\n");
  process("12", "/bin/trouped", "0::/b\n");
  process("13", "/bin/troupe", "0::/a\n");
  fs::create_directories(proc / "14");  // has ended
  EXPECT_EQ(processes_of_this_program(name), 2u);
  EXPECT_GE(processes_of_this_program(), 1u);
  fs::remove_all(proc);
}

TEST(machine_memory, limit_of_a_cgroup_v1_is_that_of_the_memory_controller) {
  const std::string here = "9:name=systemd:/\n5:cpu,cpuacct:/fast\n4:memory,hugetlb:/a/b\n0::/\n";
  const auto l = limit_of(here, {{"/sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", "536870912\n"},
                                 {"/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "9223372036854771712\n"},
                                 {"/sys/fs/cgroup/memory/fast/memory.limit_in_bytes", "1\n"}});
  ASSERT_TRUE(l);
  EXPECT_EQ(l->bytes, 536870912);
  EXPECT_EQ(l->file, "/sys/fs/cgroup/memory/a/b/memory.limit_in_bytes");
}

// In a container the path is that of the host, and the files are those of the container: its limit
// is at the root that it sees.
TEST(machine_memory, limit_in_a_container_is_at_its_root) {
  const auto of = [](const std::string& cgroups, const char* file) {
    const auto l = limit_of(cgroups, {{file, "1000\n"}});
    return l ? l->bytes : 0;
  };
  EXPECT_EQ(of("4:memory:/docker/0123abcd\n", "/sys/fs/cgroup/memory/memory.limit_in_bytes"), 1000);
  EXPECT_EQ(of("0::/docker/0123abcd\n", "/sys/fs/cgroup/memory.max"), 1000);
  EXPECT_EQ(of("0::/../../job\n", "/sys/fs/cgroup/memory.max"), 1000);
  EXPECT_EQ(of("0::/\n", "/sys/fs/cgroup/unified/memory.max"), 1000) << "v1 and v2 side by side";
}

TEST(machine_memory, malformed_texts_set_no_limit) {
  for (const char* text : {"", "\n", ":", "0:", "0::", "memory", "4:memory", "4:memory:", "x:memory:a", "4::/a", "\0:"})
    EXPECT_FALSE(limit_of(text, {})) << text;
  for (const char* limit : {"", "max", "-1", "lots", "12 34"})
    EXPECT_FALSE(limit_of("0::/\n", {{"/sys/fs/cgroup/memory.max", limit}})) << limit;
}

TEST(machine_memory, memory_of_this_machine_is_known) {
  const auto m = machine_memory();
  EXPECT_GT(m.bytes, 1 << 20);
  EXPECT_FALSE(m.of.empty());
}

// --- memory left

const std::pair<const std::string, std::string> large_machine{"/proc/meminfo",
                                                              "MemTotal:  1024 kB\nMemFree: 1 kB\nMemAvailable:    1000 kB\n"};

TEST(machine_memory, left_is_the_available_memory_when_there_is_no_limit) {
  const auto m = memory_by({large_machine});
  EXPECT_EQ(m.total, 1024u << 10);
  EXPECT_EQ(m.left, 1000u << 10);
  EXPECT_EQ(m.of, "this machine has");
  EXPECT_EQ(memory_by({}).total, 0u);
}

TEST(machine_memory, left_of_a_cgroup_is_its_limit_less_use_without_file_pages) {
  const auto one = memory_by({large_machine,
                              {"/proc/self/cgroup", "4:memory:/a\n"},
                              {"/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "100000\n"},
                              {"/sys/fs/cgroup/memory/a/memory.usage_in_bytes", "70000\n"},
                              {"/sys/fs/cgroup/memory/a/memory.stat",
                               "inactive_file 1\nactive_file 1\ntotal_inactive_file 20000\ntotal_active_file 10000\n"}});
  EXPECT_EQ(one.total, 100000u);
  EXPECT_EQ(one.left, 55000u) << "half of the active file pages can be reclaimed";
  EXPECT_EQ(one.of, "its cgroup (/sys/fs/cgroup/memory/a/memory.limit_in_bytes) allows");
  const auto two = memory_by({large_machine,
                              {"/proc/self/cgroup", "0::/a\n"},
                              {"/sys/fs/cgroup/a/memory.max", "100000\n"},
                              {"/sys/fs/cgroup/a/memory.current", "200000\n"},
                              {"/sys/fs/cgroup/a/memory.stat", "anon 5\ninactive_file 0\nactive_file 0\n"}});
  EXPECT_EQ(two.total, 100000u);
  EXPECT_EQ(two.left, 0u);
}

TEST(machine_memory, left_is_the_least_of_all_groups_up_to_the_root) {
  const auto m = memory_by({large_machine,
                            {"/proc/self/cgroup", "0::/a/b\n"},
                            {"/sys/fs/cgroup/a/b/memory.max", "1000\n"},
                            {"/sys/fs/cgroup/a/b/memory.current", "100\n"},
                            {"/sys/fs/cgroup/a/memory.max", "5000\n"},
                            {"/sys/fs/cgroup/a/memory.current", "4500\n"},
                            {"/sys/fs/cgroup/memory.max", "max\n"}});
  EXPECT_EQ(m.left, 500u);
  EXPECT_EQ(m.of, "its cgroup (/sys/fs/cgroup/a/memory.max) allows");
}

TEST(machine_memory, left_is_bounded_by_the_limit_of_address_space) {
  const tree files{
      large_machine,
      {"/proc/self/limits", "Limit  Soft Limit  Hard Limit  Units\nMax address space         500000     unlimited   bytes\n"},
      {"/proc/self/status", "VmPeak:	  9 kB\nVmSize:	  100 kB\n"}};
  const auto m = memory_by(files);
  EXPECT_EQ(m.left, 500000u - 102400u);
  EXPECT_THAT(m.of, HasSubstr("ulimit -v"));
}

TEST(memory_budget, is_the_memory_left_less_the_reserve_and_the_promised_bytes) {
  const process_memory m{64u << 20, 40u << 20, "its cgroup (/a) allows"};
  EXPECT_EQ(job_memory(m).bytes, 32 << 20) << "an eighth is reserved";
  EXPECT_EQ(job_memory(m).of, "its cgroup (/a) allows 64.0 MiB, of which a job may have");
  EXPECT_EQ(job_memory(m, 8 << 20, 4 << 20).bytes, 36 << 20) << "8 MiB held already, 4 MiB promised to others";
  EXPECT_EQ(job_memory(m, 999 << 20).bytes, 56 << 20);
  EXPECT_EQ(job_memory({64u << 20, 0, "x"}).bytes, 1) << "0 would mean no limit";
  EXPECT_EQ(job_memory({}).bytes, 0);
  EXPECT_EQ(reserve_of({std::uint64_t{64} << 30, 0, ""}), 256u << 20);
}

// --- jobs

std::shared_ptr<prepared_job> prepared(const std::vector<std::string>& overrides) {
  auto spec = parse_job(job_test::text_of(job_test::sound_lines()), "job.toml", *job_test::all_tables(), overrides);
  auto job = prepare_job(*std::move(spec), job_test::all_tables(), job_test::local_node());
  if (!job) ADD_FAILURE() << job_test::shown(job.error());
  return *std::move(job);
}

std::string refused_by(const std::vector<std::string>& overrides, double bytes, const std::string& of = "this machine has") {
  return test::error_text(check_memory(*prepared(overrides), 0, {bytes, of}));
}

constexpr double mib = 1 << 20;

TEST(memory_budget, names_the_layer_and_the_shape_that_take_the_most) {
  EXPECT_EQ(refused_by({}, 64 * mib), "");
  EXPECT_EQ(refused_by({}, 0), "") << "the amount of memory is unknown";
  const auto output = refused_by({"layer.conv1.outputs=40", "data.batch=80000", "data.examples=80000"}, 64 * mib);
  EXPECT_EQ(output.rfind("job.toml:9:1: layer 'conv1': the job would hold about ", 0), 0u) << output;
  EXPECT_THAT(output, HasSubstr("and this machine has 64.0 MiB: the largest tensor is its output 20000x40x6x6, 109.9 MiB"));
  const auto parameter = refused_by({"layer.ip1.outputs=1000000"}, 64 * mib, "its cgroup (/a/memory.max) allows");
  EXPECT_EQ(parameter.rfind("job.toml:16:1: layer 'ip1': the job would hold about ", 0), 0u) << parameter;
  EXPECT_THAT(parameter, HasSubstr("and its cgroup (/a/memory.max) allows 64.0 MiB: the largest tensor is its parameter "
                                   "'weight' 1000000x144, 549.3 MiB"));
}

TEST(memory_budget, names_the_batch_when_the_data_takes_the_most) {
  const auto bad = refused_by({"layer.conv1.kernel=8", "data.batch=4000000", "data.examples=4000000"}, 64 * mib);
  EXPECT_EQ(bad.rfind("--set data.batch=4000000: ", 0), 0u) << bad;
  EXPECT_THAT(bad, HasSubstr("the largest tensor is its data 1000000x2x8x8, 488.3 MiB; a smaller batch"));
}

TEST(memory_budget, counts_the_order_of_examples_that_samplers_keep) {
  const std::string many = "data.examples=16000000";
  const auto bad = refused_by({many}, 64 * mib);
  EXPECT_THAT(bad, HasSubstr("The largest part of it is 61.0 MiB for the order of examples that a sampler keeps"));
  EXPECT_EQ(refused_by({many}, 130 * mib), "") << "two loaders, an order each";
  EXPECT_NE(refused_by({many, "topology.workers_per_group=4"}, 130 * mib), "") << "four loaders";
  EXPECT_EQ(refused_by({many, "train.sampler.kind=\"sequential\""}, 64 * mib), "");
  EXPECT_EQ(refused_by({"data.examples=400000000"}, 64 * mib), "") << "no order is kept";
  EXPECT_NE(refused_by({"data.test_examples=16000000", "eval.sampler={kind=\"sample\", examples=100}"}, 64 * mib), "");
}

TEST(memory_budget, counts_the_reports_of_an_evaluation) {
  const auto bad = refused_by({"data.test_examples=4000000"}, 64 * mib);
  EXPECT_THAT(bad, HasSubstr(" for the reports of the 2000000 packets of an evaluation; a larger [eval] batch"));
  EXPECT_EQ(refused_by({"data.test_examples=4000000", "eval.batch=400"}, 64 * mib), "");
}

TEST(memory_budget, counts_an_evaluation_in_larger_packets_than_training) {
  EXPECT_EQ(refused_by({"eval.batch=400"}, 64 * mib), "");
  const auto bad = refused_by({"eval.batch=4000000"}, 64 * mib);
  EXPECT_EQ(bad.rfind("--set eval.batch=4000000: an evaluation would hold about ", 0), 0u) << bad;
}

}  // namespace
}  // namespace troupe
