// The programs `troupe` and `trouped` with the CUDA backend, which they open as a library, on the
// virtual GPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "tests/apps/child.hpp"
#include "tests/cluster/processes.hpp"

namespace troupe {
namespace {

using testing::HasSubstr;
using testing_apps::of_kind;
using testing_apps::outcome;

// Sets variables that the programs inherit, and checks at the end that the virtual GPUs of all
// programs have found no mistake.
class on_gpu {
 public:
  explicit on_gpu(const std::string& findings) : findings_(findings) {
    setenv("TROUPE_GPU_LIBRARY", TROUPE_VGPU_LIBRARY, 1);
    setenv("TROUPE_VGPU_FINDINGS", findings_.c_str(), 1);
    unsetenv("TROUPE_VGPU");
  }
  ~on_gpu() {
    std::ifstream in(findings_);
    for (std::string line; std::getline(in, line);) ADD_FAILURE() << line;
    for (const char* name : {"TROUPE_GPU_LIBRARY", "TROUPE_VGPU_FINDINGS", "TROUPE_VGPU"}) unsetenv(name);
  }
  static void options(const char* text) { setenv("TROUPE_VGPU", text, 1); }

 private:
  std::string findings_;
};

const std::string device_line = "devices = [\"gpu:0\"]\n";

class gpu_program : public testing_apps::command_test {
 protected:
  // The job of tests/apps with devices of the list.
  std::string job(const std::string& devices) const {
    auto text = testing_apps::tiny_job();
    const auto at = text.find("[job]\n");
    text.insert(at + 6, devices);
    return write("job.toml", text);
  }
  outcome check(const std::string& devices) const { return troupe({"check", job(devices)}); }
  std::string weights_of(const outcome& o) const {
    EXPECT_EQ(o.code, 0) << o.out << o.err;
    const auto done = of_kind(testing_apps::objects(o.out), "done");
    return done.empty() ? std::string() : done.back().at("weights_sha256").get<std::string>();
  }
  on_gpu environment_{(folder_ / "findings").string()};
};

TEST_F(gpu_program, names_the_position_and_the_reason_when_a_gpu_cannot_be_used) {
  const auto reason = [&](const char* options, const std::string& devices) {
    environment_.options(options);
    const auto o = check(devices);
    EXPECT_EQ(o.code, 2) << options;
    return o.err;
  };
  EXPECT_THAT(reason("driver=0", device_line),
              HasSubstr(":2:12: the device 'gpu:0' cannot be used: there is no NVIDIA driver on this machine"));
  EXPECT_THAT(reason("driver=12040", device_line), HasSubstr("the NVIDIA driver supports CUDA 12.4, and this build needs 13.0"));
  EXPECT_THAT(reason("", "devices = [\"gpu:0\", \"gpu:3\"]\n"),
              HasSubstr(":2:21: the device 'gpu:3' cannot be used: this machine has one GPU, gpu:0"));
  EXPECT_THAT(reason("devices=2", "devices = [\"gpu:2\"]\n"), HasSubstr("this machine has 2 GPUs, gpu:0 to gpu:1"));
  setenv("TROUPE_GPU_LIBRARY", "/nowhere/libtroupe_cuda.so", 1);
  EXPECT_THAT(reason("", device_line),
              HasSubstr("the GPU backend cannot be loaded: /nowhere/libtroupe_cuda.so: cannot open shared object file"));
}

TEST_F(gpu_program, accepts_a_gpu_of_this_machine) {
  const auto o = check(device_line);
  EXPECT_EQ(o.code, 0) << o.err;
}

TEST_F(gpu_program, trains_and_resumes_with_the_same_bits) {
  const std::vector<std::string> words{"train", job(device_line), "--json", "--set", "train.finish.steps=300"};
  const auto whole = weights_of(troupe(words));
  ASSERT_FALSE(whole.empty());
  testing_apps::child stopped(testing_apps::troupe_program(), words, folder_);
  std::string line;
  while (stopped.read_line(line) && line.find("\"step\"") == std::string::npos) {
  }
  stopped.send(SIGINT);
  EXPECT_EQ(stopped.wait().code, 0);
  EXPECT_TRUE(std::filesystem::exists(path("tiny.checkpoint.safetensors")));
  auto more = words;
  more.insert(more.end(), {"--resume", "tiny.checkpoint.safetensors", "--set", "pipeline.sub_solvers=3"});
  EXPECT_EQ(weights_of(troupe(more)), whole);
  const auto on_cpu = write("cpu.toml", testing_apps::tiny_job());
  const auto refused = troupe({"train", on_cpu, "--resume", "tiny.checkpoint.safetensors"});
  EXPECT_EQ(refused.code, 2) << "another device has other bits";
  EXPECT_THAT(refused.err, HasSubstr("gpu/sm_"));
}

TEST_F(gpu_program, names_what_was_asked_for_and_held_when_the_gpu_is_out_of_memory) {
  environment_.options("memory=262144");
  const auto o = troupe({"train", job(device_line)});
  EXPECT_EQ(o.code, 1);
  EXPECT_THAT(o.err, HasSubstr("gpu:0"));
  EXPECT_THAT(o.err, HasSubstr("is out of memory: "));
  EXPECT_THAT(o.err, HasSubstr(" of 262144 bytes are free"));
}

class gpu_daemons : public testing_cluster::cluster_test {
 protected:
  void make(const std::vector<std::vector<std::string>>& devices) {
    std::vector<node_spec> nodes;
    for (std::size_t i = 0; i < devices.size(); ++i) {
      nodes.emplace_back();
      nodes[i].name = "n" + std::to_string(i + 1);
      nodes[i].roles = {"worker", "server"};
      if (i == 0) nodes[i].roles.insert(nodes[i].roles.end(), {"coordinator", "data"});
      nodes[i].devices = devices[i];
    }
    make_cluster_of(nodes);
  }
  std::string trained(int workers, int shards) {
    const auto r = run(testing_cluster::tiny_job(), testing_cluster::workers(workers, shards));
    EXPECT_EQ(r.outcome.exit_code(), 0) << (r.outcome.messages.empty() ? "" : r.outcome.messages.front());
    return r.text("weights_sha256");
  }
  on_gpu environment_{(folder_ / "findings").string()};
};

TEST_F(gpu_daemons, train_on_the_gpus_of_two_nodes_with_the_same_bits) {
  make({{"gpu:0"}, {"gpu:0"}});
  start_all();
  const auto one = trained(1, 1);
  EXPECT_FALSE(one.empty());
  EXPECT_EQ(trained(2, 2), one);
}

TEST_F(gpu_daemons, refuse_a_mix_of_devices_unless_the_job_allows_other_bits) {
  make({{"gpu:0"}, {"cpu:0"}});
  start_all();
  const auto refused = run(testing_cluster::tiny_job(), testing_cluster::workers(2, 2));
  EXPECT_NE(refused.outcome.exit_code(), 0);
  ASSERT_FALSE(refused.outcome.messages.empty());
  EXPECT_THAT(refused.outcome.messages.front(), HasSubstr("gpu/sm_"));
  auto set = testing_cluster::workers(2, 2);
  set.emplace_back("train.deterministic=false");
  EXPECT_EQ(run(testing_cluster::tiny_job(), set).outcome.exit_code(), 0);
}

TEST_F(gpu_daemons, a_node_without_its_device_does_not_start) {
  make({{"cpu:0"}, {"gpu:4"}});
  testing_cluster::process daemon({std::string(TROUPE_BIN_DIR) + "/trouped", "--cluster", path("cluster.toml"), "--node", "n2"},
                                  folder_);
  EXPECT_NE(daemon.wait(), 0);
  EXPECT_THAT(daemon.log(), HasSubstr("node n2 cannot use its device gpu:4: this machine has one GPU, gpu:0"));
}

}  // namespace
}  // namespace troupe
