// The real cuDNN plans every convolution of configs/jobs for three GPUs. With TROUPE_REWRITE=1
// these tests write their tables into docs/measurements/cudnn_plans.md.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <utility>

#include "ops/cuda/dnn.hpp"
#include "runtime/job/convolutions.hpp"
#include "tests/node/config_jobs.hpp"
#include "tests/vgpu/properties.hpp"

namespace troupe::vgpu {
namespace {

// What the tables say of some passes on one GPU.
struct plans_summary {
  std::size_t with_workspace = 0, largest = 0;  // largest: bytes
  int later_choice = 0;                         // plans that are not the first engine of the heuristics
  std::size_t tensor_cores = 0;
};

plans_summary summary_of(const std::vector<conv_task>& tasks, dtype type, const cuda::conv_rules& rules,
                         const cuda::dnn_descriptor& gpu) {
  plans_summary s;
  for (const auto& t : tasks) {
    // Gradients of weights are f32. For them bf16 factors are widened.
    const bool widened = type == dtype::bf16 && t.pass == conv_pass::backward_weights;
    if (widened) {
      EXPECT_FALSE(cuda::plan_conv(gpu, t.geometry, t.pass, {dtype::bf16, dtype::f32}, rules)) << "widened without need";
    }
    const auto p = cuda::plan_conv(gpu, t.geometry, t.pass, widened ? dtype::f32 : type, rules);
    EXPECT_TRUE(p) << t.name << " pass " << static_cast<int>(t.pass);
    if (!p) continue;
    EXPECT_LE(p->workspace, rules.workspace);
    s.with_workspace += p->workspace > 0 ? 1 : 0;
    s.largest = std::max(s.largest, p->workspace);
    s.later_choice += p->considered > 1 ? 1 : 0;
    s.tensor_cores += p->tensor_cores ? 1 : 0;
  }
  return s;
}

// Passes of equal geometry once.
std::vector<conv_task> distinct(std::vector<conv_task> tasks) {
  std::set<std::pair<std::array<std::int64_t, 14>, conv_pass>> seen;
  std::erase_if(tasks, [&](const conv_task& t) { return !seen.emplace(t.geometry.extents(), t.pass).second; });
  return tasks;
}

std::string in_kib(std::size_t bytes) { return std::to_string((bytes + 1023) / 1024) + " KiB"; }

// Replaces the table of the page that begins with the cell `first`.
void rewrite_table(const std::string& first, const std::string& table) {
  const std::string path = TROUPE_SOURCE_DIR "/docs/measurements/cudnn_plans.md";
  std::string text{std::istreambuf_iterator<char>(std::ifstream(path).rdbuf()), {}};
  const auto begin = text.find("| " + first + " |");
  ASSERT_NE(begin, text.npos) << first;
  std::ofstream(path) << text.substr(0, begin) << table << text.substr(text.find("\n\n", begin) + 1);
}

struct planned_job {
  std::string name;
  std::vector<conv_task> tasks;
};
// The jobs that have convolutions.
std::vector<planned_job> planned_jobs() {
  std::vector<planned_job> jobs;
  for (const auto& file : testing_configs::files_in("jobs")) {
    const auto name = std::filesystem::path(file).filename().string();
    const auto j = testing_configs::job_of_file(name);
    EXPECT_TRUE(j) << file;
    if (!j) continue;
    auto tasks = distinct(conv_tasks(j->graph));
    if (!tasks.empty()) jobs.push_back({name.substr(0, name.rfind('.')), std::move(tasks)});
  }
  EXPECT_GE(jobs.size(), 12u);
  return jobs;
}

struct gpu_config_plans : testing::Test {
  const std::vector<std::pair<std::string, cuda::dnn_descriptor>> gpus{{"A100", cuda::properties_of_text(properties_a100)},
                                                                       {"H100", cuda::properties_of_text(properties_h100)},
                                                                       {"B200", cuda::properties_of_text(properties_b200)}};
  const std::vector<planned_job> jobs = planned_jobs();
};

TEST_F(gpu_config_plans, exist_in_true_f32_for_every_job) {
  std::string table = "| job | images | passes | A100 | H100 | B200 |\n|---|---|---|---|---|---|\n";
  for (const auto& j : jobs) {
    SCOPED_TRACE(j.name);
    table += "| " + j.name + " | " + std::to_string(j.tasks.front().geometry.batch) + " | " + std::to_string(j.tasks.size()) + " |";
    for (const auto& [gpu, properties] : gpus) {
      const auto s = summary_of(j.tasks, dtype::f32, {}, properties);
      EXPECT_EQ(s.tensor_cores, 0u);
      table += " " + std::to_string(s.with_workspace) + ", " + in_kib(s.largest) + "; " + std::to_string(s.later_choice) + " |";
    }
    table += "\n";
  }
  if (std::getenv("TROUPE_REWRITE")) rewrite_table("job", table);
}

TEST_F(gpu_config_plans, exist_in_tf32_and_bf16_for_every_job) {
  std::vector<conv_task> all;
  for (const auto& j : jobs) all.insert(all.end(), j.tasks.begin(), j.tasks.end());
  all = distinct(std::move(all));
  std::string table = "| arithmetic | passes | A100 | H100 | B200 |\n|---|---|---|---|---|\n";
  struct {
    const char* keys;
    dtype type;
    std::size_t workspace;
  } const kinds[] = {{"`tf32 = true`", dtype::f32, cuda::conv_rules{}.workspace},
                     {"`precision = \"bf16\"`", dtype::bf16, cuda::conv_rules{}.workspace},
                     {"the same, `conv_workspace = \"4GiB\"`", dtype::bf16, std::size_t{4} << 30}};
  for (const auto& kind : kinds) {
    SCOPED_TRACE(kind.keys);
    table += std::string("| ") + kind.keys + " | " + std::to_string(all.size()) + " |";
    for (const auto& [gpu, properties] : gpus) {
      const auto s = summary_of(all, kind.type, {.tensor_cores = true, .workspace = kind.workspace}, properties);
      table += " " + std::to_string(s.tensor_cores) + "; " + std::to_string(s.with_workspace) + ", " + in_kib(s.largest) + " |";
    }
    table += "\n";
  }
  if (std::getenv("TROUPE_REWRITE")) rewrite_table("arithmetic", table);
}

}  // namespace
}  // namespace troupe::vgpu
