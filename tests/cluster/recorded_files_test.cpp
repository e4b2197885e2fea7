// A node's answers about a recording: only the known files of this job's recording are copied.
#include "actors/control/client/recorded_files.hpp"

#include <gmock/gmock.h>

#include "runtime/cluster/job_folder_names.hpp"
#include "runtime/node/post_mortem.hpp"
#include "tests/error_text.hpp"

namespace troupe::testing_cluster {
namespace {

using ::testing::HasSubstr;
using file_list = std::vector<control::recorded_file>;

constexpr std::uint64_t room_for_all = std::uint64_t{1} << 40;
const std::string sound_plan = "job-7-lenet-17/recording/plan-0-from-step-0/";

std::string refused_names(const file_list& files, std::uint64_t room = room_for_all) {
  return test::error_text(check_recorded_files(files, 7, room));
}

TEST(recorded_files, of_a_recording_are_taken) {
  file_list all;
  for (const auto* plan : {"plan-0-from-step-0", "plan-12-from-step-18446744073709551615"})
    for (const auto* file : recording_files)
      all.push_back({control::job_folder_name(7, "my job, the 2nd") + "/recording/" + plan + "/" + file, 1000});
  EXPECT_EQ(refused_names(all), "");
  EXPECT_EQ(refused_names({}), "");
}

TEST(recorded_files, of_other_names_are_refused) {
  for (const std::string name : {"",
                                 "/",
                                 "job.toml",
                                 "/etc/passwd",
                                 "../job.toml",
                                 "job-7-lenet-17/recording/plan-0-from-step-0",
                                 "job-7-lenet-17/recording/plan-0-from-step-0/",
                                 "job-7-lenet-17/recording/plan-0-from-step-0/evil.so",
                                 "job-7-lenet-17/recording/plan-0-from-step-0/../job.toml",
                                 "job-7-lenet-17/recording/../plan-0-from-step-0/job.toml",
                                 "job-7-lenet-17/recording//plan-0-from-step-0/job.toml",
                                 "/job-7-lenet-17/recording/plan-0-from-step-0/job.toml",
                                 "job-7-lenet-17/recording/plan-0-from-step-0/job.toml/",
                                 "./job-7-lenet-17/recording/plan-0-from-step-0/job.toml",
                                 "job-7-lenet-17/recording/plan-0-from-step-0/x/job.toml",
                                 "job-7-lenet-17/weights/plan-0-from-step-0/job.toml",
                                 "job-8-lenet-17/recording/plan-0-from-step-0/job.toml",
                                 "job-7-lenet/recording/plan-0-from-step-0/job.toml",
                                 "job-7-..-17/recording/plan-0-from-step-0/job.toml",
                                 "job-7-a b-17/recording/plan-0-from-step-0/job.toml",
                                 "job-7-lenet-17/recording/plan-00-from-step-0/job.toml",
                                 "job-7-lenet-17/recording/plan--1-from-step-0/job.toml",
                                 "job-7-lenet-17/recording/plan-0-from-step-0x/job.toml",
                                 "job-7-lenet-17/recording/plan-4294967296-from-step-0/job.toml",
                                 "job-7-lenet-17/recording/plan-0-from-step-0/JOB.TOML"})
    EXPECT_THAT(refused_names({{name, 1}}), HasSubstr("no recording of job 7 has")) << name;
  EXPECT_THAT(refused_names({{sound_plan + "job.toml" + '\0', 1}}), HasSubstr("no recording of job 7 has"));
}

TEST(recorded_files, that_come_twice_or_are_too_large_are_refused) {
  EXPECT_THAT(refused_names({{sound_plan + "job.toml", 1}, {sound_plan + "plan.json", 1}, {sound_plan + "job.toml", 1}}),
              HasSubstr("twice"));
  EXPECT_THAT(refused_names({{sound_plan + "job.toml", max_recorded_text + 1}}), HasSubstr("larger than 64 MiB"));
  EXPECT_THAT(refused_names({{sound_plan + "messages.stream", 600}, {sound_plan + "begins-with.safetensors", 401}}, 1000),
              HasSubstr("larger than the free space"));
  EXPECT_THAT(refused_names({{sound_plan + "messages.stream", ~std::uint64_t{0}}, {sound_plan + "plan.json", 2}}),
              HasSubstr("larger than the free space"));
  EXPECT_EQ(refused_names({{sound_plan + "messages.stream", 600}, {sound_plan + "begins-with.safetensors", 400}}, 1000), "");
  file_list many;
  for (std::size_t i = 0; i <= max_recorded_files; ++i)
    many.push_back({"job-7-lenet-17/recording/" + recording_name(0, i) + "/job.toml", 1});
  EXPECT_THAT(refused_names(many), HasSubstr("more than 65536 files"));
}

}  // namespace
}  // namespace troupe::testing_cluster
