// Files of simulated clusters: their meaning, and the position of every mistake.
#include "runtime/node/config/sim_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "runtime/job/job.hpp"
#include "runtime/node/config/job_file.hpp"
#include "tests/node/sim_texts.hpp"

namespace troupe {
namespace {

const char* const everything = R"(
resend = "2ms"
[run]
job = "net.toml"
nodes = 8
steps = 3
buckets = 2
maths = "none"
set = ["data.batch=8"]
[network]
fabric = "tree"
bandwidth = "2.5GB/s"
latency = "5us"
jitter = "200ns"
switching = "store_and_forward"
duplex = "half"
rack = 4
oversubscription = 2
local = "100ns"
[[network.link]]
node = 3
bandwidth = 1000
[compute]
flops_per_second = 2e12
bytes_per_second = "20GB/s"
floor = "1us"
cores = 4
stragglers = { kind = "exponential", spread = 0.5, probability = 0.1 }
[[compute.slow]]
node = 1
factor = 2
[[fault]]
kind = "drop"
probability = 0.25
nodes = [1, 8]
[[fault]]
kind = "duplicate"
where = "role"
probability = 1
[[fault]]
kind = "crash"
from = "1s"
until = "2s"
restart_after = "100ms"
times = 4
)";

TEST(sim_file, all_keys_are_read) {
  const auto s = sim_texts::good(everything);
  ASSERT_TRUE(s.run);
  EXPECT_EQ(s.run->nodes, 8u);
  EXPECT_EQ(s.run->buckets, 2);
  EXPECT_EQ(s.run->set, std::vector<std::string>{"data.batch=8"});
  EXPECT_EQ(s.network.fabric, sim::fabric_kind::tree);
  EXPECT_EQ(s.network.bytes_per_second, 2.5e9);
  EXPECT_EQ(s.network.latency, std::chrono::microseconds(5));
  EXPECT_EQ(s.network.jitter, std::chrono::nanoseconds(200));
  EXPECT_FALSE(s.network.cut_through);
  EXPECT_FALSE(s.network.full_duplex);
  EXPECT_EQ(s.network.rack, 4u);
  EXPECT_EQ(s.network.oversubscription, 2);
  ASSERT_EQ(s.network.node_bytes_per_second.size(), 1u);
  EXPECT_EQ(s.network.node_bytes_per_second[0], std::pair(2u, 1000.0));
  EXPECT_EQ(s.compute.flops_per_second, 2e12);
  EXPECT_EQ(s.compute.bytes_per_second, 20e9);
  EXPECT_EQ(s.compute.cores, 4u);
  EXPECT_EQ(s.compute.kind, sim::straggle::exponential);
  EXPECT_EQ(s.compute.probability, 0.1);
  EXPECT_EQ(s.compute.slow[0], std::pair(0u, 2.0));
  EXPECT_EQ(s.faults.resend, std::chrono::milliseconds(2));
  ASSERT_EQ(s.faults.list.size(), 3u);
  EXPECT_EQ(s.faults.list[0].nodes, (std::vector<std::uint32_t>{0, 7}));
  EXPECT_TRUE(s.faults.list[1].above);
  EXPECT_EQ(s.faults.list[2].kind, sim::fault_kind::crash);
  EXPECT_EQ(s.faults.list[2].restart_after, std::chrono::milliseconds(100));
  EXPECT_EQ(s.faults.list[2].times, 4u);
  auto named = s;
  EXPECT_TRUE(find_nodes(named, sim_texts::numbered(8)).empty());
  const auto missing = find_nodes(named, sim_texts::numbered(7));
  ASSERT_EQ(missing.size(), 1u);
  EXPECT_EQ(missing[0].to_string(), "sim.toml:35:13: there is no node 8: the cluster has 7");
}

const sim_texts::row entries[] = {
    {"[network]\nbandwidth = 1\n", "1:2", "[network]: it needs a fabric: uniform, star or tree"},
    {"[network]\nfabric = \"ring\"\n", "2:1", "unknown fabric 'ring' (available: uniform, star, tree)"},
    {"[network]\nfabric = \"star\"\nbandwith = 1\n", "3:1", "unknown key 'bandwith'; did you mean 'bandwidth'?"},
    {"[network]\nfabric = \"star\"\nbandwidth = \"2.8GB\"\n", "3:1", "'bandwidth' must be bytes per second, as in \"2.8GB/s\""},
    {"[network]\nfabric = \"star\"\nbandwidth = -1\n", "3:1", "'bandwidth' must be bytes per second"},
    {"[network]\nfabric = \"star\"\nlatency = 5\n", "3:1", "'latency' must be a string"},
    {"[network]\nfabric = \"star\"\nlatency = \"5\"\n", "3:1", "a time with a unit"},
    {"[network]\nfabric = \"star\"\nlatency = \"-5us\"\n", "3:1", "'latency'"},
    {"[network]\nfabric = \"star\"\nrack = 4\n", "3:1", "unknown key 'rack'"},
    {"[network]\nfabric = \"tree\"\n", "1:2", "it needs rack, the number of nodes per rack"},
    {"[network]\nfabric = \"tree\"\nrack = 0\n", "3:1", "'rack' must be between 1 and"},
    {"[network]\nfabric = \"tree\"\nrack = 2\nuplink_bandwidth = 1\noversubscription = 2\n", "5:1", "not both"},
    {"[network]\nfabric = \"uniform\"\nleast = \"2us\"\nmost = \"1us\"\n", "4:1", "'most' is less than 'least'"},
    {"[network]\nfabric = \"star\"\n[[network.link]]\nbandwidth = 1\n", "3:1", "a link: it needs a node"},
    {"[network]\nfabric = \"star\"\n[[network.link]]\nnode = 0\nbandwidth = 1\n", "4:1", "'node' must be between 1 and"},
    {"[compute]\ncores = 0\n", "2:1", "'cores' must be between 1 and"},
    {"[compute]\nmeasure = true\nexamples_per_second = 3\n", "3:1", "give one of"},
    {"[compute]\nstragglers = { kind = \"pareto\", spread = 1 }\n", "2:16", "unknown kind 'pareto'"},
    {"[compute]\nstragglers = { kind = \"lognormal\" }\n", "2:1", "it needs a spread"},
    {"[compute]\nstragglers = 3\n", "2:1", "'stragglers' must be a table"},
    {"[disk]\nbandwidth = 3\nsize = 4\n", "3:1", "unknown key 'size'"},
    {"[fault]\nkind = \"drop\"\n", "1:2", "'fault' must be a list of tables: [[fault]]"},
    {"resend = \"0s\"\n", "1:1", "'resend' must be greater than 0"},
    {"resent = \"1s\"\n", "1:1", "unknown key 'resent'; did you mean 'resend'?"},
    {"[run]\nnodes = 2\n", "1:2", "it needs a job"},
    {"[run]\njob = \"a.toml\"\n", "1:2", "it needs nodes"},
    {"[run]\njob = \"a.toml\"\nnodes = 2\nmaths = \"some\"\n", "4:1", "unknown maths 'some'"},
    {"a = [\n", "1:7", "end-of-file"},
};

TEST(sim_file, every_mistake_names_its_position) { sim_texts::expect_mistakes(entries); }

std::vector<std::string> files_in(const std::string& folder) {
  std::vector<std::string> out;
  for (const auto& e : std::filesystem::directory_iterator(std::string(TROUPE_SOURCE_DIR) + "/configs/" + folder))
    if (e.path().extension() == ".toml") out.push_back(e.path().string());
  return out;
}

TEST(sim_file, every_file_under_configs_is_valid) {
  std::size_t faults = 0, networks = 0, scenarios = 0;
  for (const char* folder : {"sim", "faults"})
    for (const auto& f : files_in(folder)) {
      SCOPED_TRACE(f);
      const auto name = std::filesystem::path(f).stem().string();
      if (name == "pipeline_chain") continue;  // a job
      const auto r = read_sim_file(f);
      const auto* s = r ? &*r : nullptr;
      ASSERT_TRUE(s) << r.error().front().to_string();
      faults += s->has_faults, networks += s->has_network, scenarios += s->run.has_value();
      if (s->run) {
        EXPECT_TRUE(std::filesystem::exists(s->run->job));
      }
    }
  EXPECT_GE(faults, 5u);
  EXPECT_GE(networks, 10u);
  EXPECT_GE(scenarios, 7u);
}

// Sizes of published models: parameters, and TFLOP of an iteration of 1024 examples (three times
// forward).
TEST(sim_file, the_nets_have_their_published_sizes) {
  struct net {
    const char* name;
    std::int64_t parameters;
    double tflop;
  };
  for (const auto& n :
       {net{"nin", 7595176, 6.76}, net{"googlenet", 13378280, 9.78}, net{"alexnet", 60965224, 4.45}, net{"vgg16", 138357544, 95}}) {
    SCOPED_TRACE(n.name);
    const auto all = std::make_shared<const tables>(stock_tables());
    auto spec = read_job_file(std::string(TROUPE_SOURCE_DIR) + "/configs/jobs/" + n.name + ".toml", *all);
    ASSERT_TRUE(spec) << spec.error().front().to_string();
    node_spec one;
    one.name = "n1";
    auto made = prepare_job(*std::move(spec), all, {one});
    ASSERT_TRUE(made) << made.error().front().to_string();
    const auto& j = **made;
    EXPECT_EQ(j.graph.parameter_count, n.parameters);
    const auto flops = 3 * j.graph.flops_per_packet() / static_cast<double>(j.graph.packet_examples) * 1024 / 1e12;
    EXPECT_NEAR(flops, n.tflop, 0.02 * n.tflop);
  }
}

}  // namespace
}  // namespace troupe
