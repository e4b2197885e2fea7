// The real cuDNN plans every convolution of configs/jobs for three GPUs. With TROUPE_REWRITE=1 this
// test writes its table into docs/measurements/cudnn_plans.md.
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

// What the table says of one job on one GPU.
struct plans_summary {
  std::size_t with_workspace = 0, largest = 0;  // largest: bytes
  int later_choice = 0;                         // plans that are not the first engine of the heuristics
};

plans_summary summary_of(const std::vector<conv_task>& tasks, dtype type, const cuda::dnn_descriptor& gpu) {
  plans_summary s;
  for (const auto& t : tasks) {
    const auto p = cuda::plan_conv(gpu, t.geometry, t.pass, type);
    EXPECT_TRUE(p) << t.name << " pass " << static_cast<int>(t.pass);
    if (!p) continue;
    EXPECT_FALSE(p->tensor_cores);
    s.with_workspace += p->workspace > 0 ? 1 : 0;
    s.largest = std::max(s.largest, p->workspace);
    s.later_choice += p->considered > 1 ? 1 : 0;
  }
  return s;
}

// Passes of equal geometry once.
std::vector<conv_task> distinct(std::vector<conv_task> tasks) {
  std::set<std::pair<std::array<std::int64_t, 14>, conv_pass>> seen;
  std::erase_if(tasks, [&](const conv_task& t) { return !seen.emplace(t.geometry.extents(), t.pass).second; });
  return tasks;
}

TEST(gpu_plans, exist_for_every_convolution_of_the_jobs_under_configs) {
  const std::vector<std::pair<std::string, cuda::dnn_descriptor>> gpus{{"A100", cuda::properties_of_text(properties_a100)},
                                                                       {"H100", cuda::properties_of_text(properties_h100)},
                                                                       {"B200", cuda::properties_of_text(properties_b200)}};
  std::string table = "| job | type | images | passes |";
  for (const auto& [name, gpu] : gpus) table += " " + name + " |";
  table += "\n|---|---|---|---|---|---|---|\n";
  std::size_t jobs = 0;
  for (const auto& file : testing_configs::files_in("jobs")) {
    SCOPED_TRACE(file);
    const auto name = std::filesystem::path(file).filename().string();
    const auto j = testing_configs::job_of_file(name);
    ASSERT_TRUE(j);
    const auto tasks = distinct(conv_tasks(j->graph));
    if (tasks.empty()) continue;
    ++jobs;
    const auto type = j->spec.type() == dtype::f64 ? dtype::f64 : dtype::f32;  // bf16 is computed in f32
    table += "| " + name.substr(0, name.rfind('.')) + " | " + (type == dtype::f64 ? "f64" : "f32") + " | " +
             std::to_string(tasks.front().geometry.batch) + " | " + std::to_string(tasks.size()) + " |";
    for (const auto& [gpu, properties] : gpus) {
      const auto s = summary_of(tasks, type, properties);
      EXPECT_LE(s.largest, cuda::conv_rules{}.workspace);
      table += " " + std::to_string(s.with_workspace) + ", " + std::to_string((s.largest + 1023) / 1024) + " KiB; " +
               std::to_string(s.later_choice) + " |";
    }
    table += "\n";
  }
  EXPECT_GE(jobs, 12u);
  if (!std::getenv("TROUPE_REWRITE")) return;
  const std::string path = TROUPE_SOURCE_DIR "/docs/measurements/cudnn_plans.md";
  std::string text{std::istreambuf_iterator<char>(std::ifstream(path).rdbuf()), {}};
  const auto begin = text.find("| job |");
  std::ofstream(path) << text.substr(0, begin) << table << text.substr(text.find("\n\n", begin) + 1);
}

}  // namespace
}  // namespace troupe::vgpu
