// The programs `troupe` and `trouped` with the CUDA backend, which they open as a library, on the
// virtual GPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <map>

#include "tests/apps/child.hpp"
#include "tests/cluster/processes.hpp"

namespace troupe {
namespace {

using namespace std::chrono_literals;
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
    setenv("TROUPE_NVML_LIBRARY", TROUPE_VGPU_NVML_LIBRARY, 1);
    unsetenv("TROUPE_VGPU");
  }
  ~on_gpu() {
    std::ifstream in(findings_);
    for (std::string line; std::getline(in, line);) ADD_FAILURE() << line;
    for (const char* name : {"TROUPE_GPU_LIBRARY", "TROUPE_NVML_LIBRARY", "TROUPE_VGPU_FINDINGS", "TROUPE_VGPU"}) unsetenv(name);
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
  EXPECT_EQ(stopped.wait().code, 128 + SIGINT);
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

TEST_F(gpu_program, device_query_lists_the_devices_of_this_machine) {
  environment_.options("devices=2 reversed=1 memory=1048576");
  const auto o = troupe({"device_query", "--json"});
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_EQ(o.err, "");
  const auto all = testing_apps::objects(o.out);
  ASSERT_EQ(all.size(), 4u) << o.out;
  EXPECT_EQ(all[0]["event"], "device");
  EXPECT_EQ(all[0]["device"], "cpu:0");
  EXPECT_EQ(all[0]["kind"], "cpu");
  EXPECT_GT(all[0]["cores"], 0);
  EXPECT_GT(all[0]["memory_total"], all[0]["memory_free"]);
  const auto kernels = all[0]["kernels"].get<std::string>();
  const auto id = all[0]["numerics_id"].get<std::string>();
  // The id names the instruction set and the matrix unit apart.
  EXPECT_THAT(id, HasSubstr(kernels.substr(0, kernels.find("-amx"))));
  EXPECT_EQ(id.ends_with("/amx"), kernels.ends_with("-amx")) << id;
  EXPECT_EQ(all[1]["device"], "gpu:0");
  EXPECT_EQ(all[1]["name"], "virtual GPU");
  EXPECT_EQ(all[1]["compute_capability"], "9.0");
  EXPECT_EQ(all[1]["multiprocessors"], 132);
  EXPECT_EQ(all[1]["clock_mhz"], 1980);
  EXPECT_EQ(all[1]["memory_total"], 1048576);
  EXPECT_EQ(all[1]["memory_free"], 1048576);
  EXPECT_EQ(all[1]["pci_bus"], "0000:02:00.0");
  EXPECT_EQ(all[1]["driver"], "580.65.06");
  EXPECT_EQ(all[1]["driver_cuda"], "13.0");
  EXPECT_THAT(all[1]["numerics_id"].get<std::string>(), HasSubstr("gpu/sm_90/132/cuda"));
  EXPECT_EQ(all[1]["temperature_c"], 61) << "the second GPU of the machine is gpu:0";
  EXPECT_EQ(all[1]["utilisation"], 91);
  EXPECT_EQ(all[1]["processes"], 1);
  EXPECT_EQ(all[2]["device"], "gpu:1");
  EXPECT_EQ(all[2]["temperature_c"], 60);
  EXPECT_EQ(all[3], nlohmann::json::parse(R"({"event": "done", "gpus": 2})"));
  const auto text = troupe({"device_query"}).out;
  EXPECT_THAT(text, HasSubstr("gpu:1  virtual GPU\n  compute       9.0, 132 multiprocessors, 1980 MHz\n"));
  EXPECT_THAT(text, HasSubstr("  memory        1.0 MiB, 1.0 MiB free\n  sensors       90 % busy, 60 C, "));
}

TEST_F(gpu_program, device_query_leaves_out_sensors_when_there_is_no_nvml) {
  setenv("TROUPE_NVML_LIBRARY", "/nowhere/libnvidia-ml.so.1", 1);
  const auto all = testing_apps::objects(troupe({"device_query", "--json"}).out);
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[1]["device"], "gpu:0");
  for (const char* key : {"utilisation", "temperature_c", "power_w", "memory_used", "processes", "driver"})
    EXPECT_FALSE(all[1].contains(key)) << key;
  EXPECT_TRUE(all[1].contains("memory_free"));
}

TEST_F(gpu_program, device_query_says_why_there_is_no_gpu_and_succeeds) {
  const auto why = [&](const char* options) {
    environment_.options(options);
    const auto o = troupe({"device_query", "--json"});
    EXPECT_EQ(o.code, 0) << o.err;
    const auto all = testing_apps::objects(o.out);
    EXPECT_EQ(all.size(), 2u) << o.out;
    EXPECT_EQ(all.back()["gpus"], 0);
    return all.back().value("why_no_gpu", "");
  };
  EXPECT_EQ(why("driver=0"), "there is no NVIDIA driver on this machine");
  EXPECT_EQ(why("driver=12040"), "the NVIDIA driver supports CUDA 12.4, and this build needs 13.0");
  setenv("TROUPE_GPU_LIBRARY", "/nowhere/libtroupe_cuda.so", 1);
  EXPECT_THAT(why(""), HasSubstr("the GPU backend cannot be loaded: /nowhere/libtroupe_cuda.so: cannot open shared object file"));
  EXPECT_THAT(troupe({"device_query"}).out, HasSubstr("\nno GPU: the GPU backend cannot be loaded: "));
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

// The losses of the steps among the events; a client that reads slowly does not get all of them.
std::map<std::uint64_t, double> losses_of(const std::vector<job_event>& events) {
  std::map<std::uint64_t, double> losses;
  for (const auto& e : events)
    for (const auto& [name, value] : flatten(e.event).values)
      if (e.event.is<step_event>() && name == "loss") losses[e.event.step] = value;
  return losses;
}

TEST_F(gpu_daemons, train_lenet_with_the_loss_curve_of_the_cpu) {
  std::ifstream in(std::string(TROUPE_SOURCE_DIR) + "/configs/jobs/lenet_synthetic.toml");
  const std::string lenet{std::istreambuf_iterator<char>(in), {}};
  ASSERT_FALSE(lenet.empty());
  std::vector<std::string> set{"data.batch=8", "pipeline.packets=4", "train.finish={steps=20}", "topology.workers_per_group=2"};
  std::vector<std::string> words{std::string(TROUPE_BIN_DIR) + "/troupe", "train", write("lenet.toml", lenet), "--json"};
  for (const auto& s : set) words.insert(words.end(), {"--set", s});
  testing_cluster::process on_cpu(words, folder_);
  ASSERT_EQ(on_cpu.wait(), 0) << on_cpu.log();
  std::map<std::uint64_t, double> want;
  for (const auto& e : of_kind(testing_apps::objects(on_cpu.out()), "step")) want[e.at("step")] = e.at("loss");
  ASSERT_EQ(want.size(), 20u);

  make({{"gpu:0"}, {"gpu:0"}});
  start_all();
  const auto r = run(lenet, set);
  ASSERT_EQ(r.outcome.exit_code(), 0) << (r.outcome.messages.empty() ? "" : r.outcome.messages.front());
  const auto got = losses_of(r.events);
  EXPECT_GE(got.size(), 10u);
  for (const auto& [step, loss] : got) EXPECT_NEAR(loss, want.at(step), 1e-4) << "step " << step;
}

TEST_F(gpu_daemons, report_the_gpus_that_their_devices_name) {
  environment_.options("devices=2");
  make({{"cpu:0"}, {"gpu:1"}});
  start_all();
  using nlohmann::json;
  const auto asked = [&](const char* node, const char* command) { return json::parse(ask(node, command, true).text); };
  json nodes;
  const auto reported = [&] { return nodes.size() == 2 && nodes[1].contains("gpus"); };
  for (const auto end = testing_cluster::clock::now() + std::chrono::seconds(20);
       !reported() && testing_cluster::clock::now() < end;)
    nodes = asked("n1", "nodes")["nodes"];
  ASSERT_TRUE(reported()) << nodes;
  EXPECT_FALSE(nodes[0].contains("gpus")) << "n1 names no GPU";
  ASSERT_EQ(nodes[1]["gpus"].size(), 1u);
  const auto g = nodes[1]["gpus"][0];
  EXPECT_EQ(g["device"], "gpu:1");
  EXPECT_EQ(g["name"], "virtual GPU");
  EXPECT_EQ(g["memory_total"], std::int64_t{1} << 30);
  EXPECT_EQ(g["temperature_c"], 61);
  EXPECT_TRUE(g.contains("pool_held")) << "the daemon has opened it";
  EXPECT_THAT(ask("n1", "nodes").text, HasSubstr("n2    gpu:1  virtual GPU"));
  EXPECT_EQ(asked("n2", "status")["gpus"][0]["device"], "gpu:1");
  EXPECT_FALSE(asked("n1", "status").contains("gpus"));
  const auto has_opened = [&](const char* node, const char* library) {
    std::ifstream maps("/proc/" + std::to_string(daemon(node).pid()) + "/maps");
    const std::string all{std::istreambuf_iterator<char>(maps), {}};
    EXPECT_FALSE(all.empty());
    return all.find(library) != std::string::npos;
  };
  for (const char* library : {TROUPE_VGPU_LIBRARY, TROUPE_VGPU_NVML_LIBRARY}) {
    EXPECT_TRUE(has_opened("n2", library));
    EXPECT_FALSE(has_opened("n1", library)) << library;
  }
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

TEST_F(gpu_daemons, a_daemon_that_loses_its_gpu_starts_anew_and_takes_the_next_job) {
  environment_.options("lose_device=400");
  setenv("TROUPE_VGPU_LOST_ONCE", path("lost").c_str(), 1);
  make({{"cpu:0"}, {"gpu:0"}});
  start_all();
  auto set = testing_cluster::workers(2, 1);
  set.emplace_back("train.deterministic=false");
  const auto first = run(testing_cluster::tiny_job(), set);
  EXPECT_EQ(first.outcome.exit_code(), 0) << (first.outcome.messages.empty() ? "" : first.outcome.messages.front());
  EXPECT_TRUE(daemon("n2").wait_log("gpu:0 is lost, and this process cannot use it again: the daemon starts anew", 20s));
  const auto is_up = [&] {
    const auto nodes = nlohmann::json::parse(ask("n1", "nodes", true).text)["nodes"];
    return nodes.size() == 2 && nodes[1]["state"] == "up";
  };
  for (const auto end = testing_cluster::clock::now() + 20s; !is_up() && testing_cluster::clock::now() < end;) {
  }
  EXPECT_TRUE(is_up());
  const auto second = run(testing_cluster::tiny_job(), set);
  EXPECT_EQ(second.outcome.exit_code(), 0) << (second.outcome.messages.empty() ? "" : second.outcome.messages.front());
  unsetenv("TROUPE_VGPU_LOST_ONCE");
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
