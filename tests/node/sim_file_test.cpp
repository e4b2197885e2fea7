// Files of simulated clusters: their meaning, and the position of every mistake.
#include "runtime/node/config/sim_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "runtime/job/job.hpp"
#include "runtime/node/config/fault_trace.hpp"
#include "runtime/node/config/job_file.hpp"

namespace troupe {
namespace {

using ::testing::HasSubstr;

sim_spec good(const std::string& text) {
  auto r = parse_sim(text, "sim.toml");
  if (!r) {
    for (const auto& d : r.error()) ADD_FAILURE() << d.to_string();
    return {};
  }
  return *std::move(r);
}

const char* const everything = R"(
detect = "2s"
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
  const auto s = good(everything);
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
  EXPECT_EQ(s.faults.detect, std::chrono::seconds(2));
  ASSERT_EQ(s.faults.list.size(), 3u);
  EXPECT_EQ(s.faults.list[0].nodes, (std::vector<std::uint32_t>{0, 7}));
  EXPECT_TRUE(s.faults.list[1].above);
  EXPECT_EQ(s.faults.list[2].kind, sim::fault_kind::crash);
  EXPECT_EQ(s.faults.list[2].restart_after, std::chrono::milliseconds(100));
  EXPECT_EQ(s.faults.list[2].times, 4u);
  EXPECT_TRUE(check_nodes(s, 8).empty());
  const auto missing = check_nodes(s, 7);
  ASSERT_EQ(missing.size(), 1u);
  EXPECT_EQ(missing[0].to_string(), "sim.toml:35:13: there is no node 8: the cluster has 7");
}

struct row {
  const char* text;
  const char* at;
  const char* message;
};

const row entries[] = {
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
    {"[[fault]]\nprobability = 1\n", "1:1", "it needs a kind: delay, reorder"},
    {"[[fault]]\nkind = \"delai\"\n", "2:1", "unknown kind 'delai'; did you mean 'delay'?"},
    {"[[fault]]\nkind = \"drop\"\n", "1:1", "a fault of kind drop: it needs a probability"},
    {"[[fault]]\nkind = \"drop\"\nprobability = 1.5\n", "3:1", "'probability' must be between 0 and 1"},
    {"[[fault]]\nkind = \"drop\"\nprobability = 1\n", "3:1", "every message would be dropped"},
    {"[[fault]]\nkind = \"delay\"\nprobability = 0.1\n", "1:1", "it needs 'most'"},
    {"[[fault]]\nkind = \"delay\"\nprobability = 0.1\nmost = \"1ms\"\nleast = \"2ms\"\n", "4:1", "'most' is less than 'least'"},
    {"[[fault]]\nkind = \"duplicate\"\nprobability = 0.1\nwhere = \"cable\"\n", "4:1", "unknown where 'cable'"},
    {"[[fault]]\nkind = \"partition\"\nnodes = [1]\n", "1:1", "it needs an end, 'until'"},
    {"[[fault]]\nkind = \"partition\"\nuntil = \"1s\"\n", "1:1", "it needs nodes"},
    {"[[fault]]\nkind = \"partition\"\nnodes = [0]\nuntil = \"1s\"\n", "3:10", "a list of node numbers, counted from 1"},
    {"[[fault]]\nkind = \"partition\"\nnodes = [1]\nuntil = \"1s\"\nfactor = 2\n", "5:1", "unknown key 'factor'"},
    {"[[fault]]\nkind = \"slow\"\nnodes = [1]\n", "1:1", "it needs a factor"},
    {"[[fault]]\nkind = \"crash\"\n", "1:1", "it needs 'from'"},
    {"[[fault]]\nkind = \"crash\"\nfrom = \"2s\"\nuntil = \"1s\"\n", "4:1", "'until' is before 'from'"},
    {"[[fault]]\nkind = \"crash\"\nfrom = \"2s\"\nnodes = [2]\nroles = [\"host0\"]\n", "5:1", "give 'nodes' or 'roles', not both"},
    {"[[fault]]\nkind = \"drop\"\nprobability = 0.1\nroles = [\"host0\"]\n", "4:1", "roles"},
    {"[[fault]]\nkind = \"crash\"\nuntil = \"1h\"\nevery = { kind = \"pareto\", mean = \"1h\" }\n", "4:11",
     "unknown kind 'pareto'"},
    {"[[fault]]\nkind = \"crash\"\nuntil = \"1h\"\nevery = { kind = \"exponential\" }\n", "4:1", "it needs a mean"},
    {"[[fault]]\nkind = \"crash\"\nuntil = \"1h\"\nevery = { mean = \"0s\" }\n", "4:11", "'mean' must be greater than 0"},
    {"[[fault]]\nkind = \"crash\"\nuntil = \"1h\"\nevery = { kind = \"weibull\", mean = \"1h\" }\n", "4:1", "it needs a shape"},
    {"[[fault]]\nkind = \"crash\"\nuntil = \"1h\"\ntimes = 2\nevery = { mean = \"1h\" }\n", "5:1",
     "one of 'times', 'every' and 'trace'"},
    {"[[fault]]\nkind = \"crash\"\nevery = { mean = \"1h\" }\n", "1:1", "it needs an end, 'until'"},
    {"[[fault]]\nkind = \"crash\"\nfrom = \"0s\"\nrack = 0\n", "4:1", "'rack' must be between 1 and"},
    {"[[fault]]\nkind = \"crash\"\nfrom = \"0s\"\ngroups = [[2], [0]]\n", "4:17", "a list of lists of node numbers"},
    {"[[fault]]\nkind = \"crash\"\nfrom = \"0s\"\ngroups = [2]\n", "4:11", "a list of lists of node numbers"},
    {"[[fault]]\nkind = \"crash\"\nfrom = \"0s\"\nnodes = [2]\nrack = 4\n", "5:1", "nodes or roles, or groups, but not both"},
    {"[[fault]]\nkind = \"crash\"\ntrace = \"no_such_file.txt\"\n", "3:1", "no_such_file.txt"},
    {"[[fault]]\nkind = \"slow_disk\"\nnodes = [1]\n", "1:1", "it needs a factor on the time of checkpoints"},
    {"[[fault]]\nkind = \"skew\"\nnodes = [1]\n", "1:1", "it needs a rate, 'ahead', or both"},
    {"[[fault]]\nkind = \"skew\"\nnodes = [1]\nrate = 3\n", "4:1", "'rate' must be between 0.5 and 2"},
    {"[[fault]]\nkind = \"skew\"\nnodes = [1]\nrate = 1.1\nfrom = \"1s\"\n", "5:1", "remove 'from'"},
    {"[disk]\nbandwidth = 3\nsize = 4\n", "3:1", "unknown key 'size'"},
    {"[fault]\nkind = \"drop\"\n", "1:2", "'fault' must be a list of tables: [[fault]]"},
    {"resend = \"0s\"\n", "1:1", "'resend' must be greater than 0"},
    {"detekt = \"1s\"\n", "1:1", "unknown key 'detekt'; did you mean 'detect'?"},
    {"[run]\nnodes = 2\n", "1:2", "it needs a job"},
    {"[run]\njob = \"a.toml\"\n", "1:2", "it needs nodes"},
    {"[run]\njob = \"a.toml\"\nnodes = 2\nmaths = \"some\"\n", "4:1", "unknown maths 'some'"},
    {"a = [\n", "1:7", "end-of-file"},
};

TEST(sim_file, every_mistake_names_its_position) {
  for (const auto& r : entries) {
    SCOPED_TRACE(r.text);
    const auto parsed = parse_sim(r.text, "sim.toml");
    const auto* bad = parsed ? nullptr : &parsed.error();
    ASSERT_TRUE(bad);
    ASSERT_FALSE(bad->empty());
    EXPECT_EQ(bad->front().at.to_string(), std::string("sim.toml:") + r.at) << bad->front().message;
    EXPECT_THAT(bad->front().message, HasSubstr(r.message));
  }
}

TEST(sim_file, rates_groups_clocks_and_disks_are_read) {
  const auto s = good(R"(
[disk]
bandwidth = "1GB/s"
latency = "2ms"
[[fault]]
kind = "crash"
every = { kind = "weibull", mean = "500h", shape = 0.7 }
rack = 16
until = "30d"
restart_after = "10min"
[[fault]]
kind = "crash"
from = "1s"
groups = [[2, 3], [4]]
[[fault]]
kind = "skew"
nodes = [2]
ahead = "3ms"
rate = 1.001
[[fault]]
kind = "slow_disk"
nodes = [1]
factor = 10
)");
  ASSERT_TRUE(s.disk);
  EXPECT_EQ(s.disk->bytes_per_second, 1e9);
  EXPECT_EQ(s.disk->latency, std::chrono::milliseconds(2));
  ASSERT_EQ(s.faults.list.size(), 4u);
  const auto& w = s.faults.list[0];
  EXPECT_EQ(w.when, sim::crash_times::weibull);
  EXPECT_EQ(w.mean, 500 * 3600);
  EXPECT_EQ(w.shape, 0.7);
  EXPECT_EQ(w.rack, 16u);
  EXPECT_EQ(s.faults.list[1].groups, (std::vector<std::vector<std::uint32_t>>{{1, 2}, {3}}));
  EXPECT_EQ(s.faults.list[2].least, std::chrono::milliseconds(3));
  EXPECT_EQ(s.faults.list[2].factor, 1.001);
  EXPECT_EQ(s.faults.list[3].kind, sim::fault_kind::slow_disk);
  EXPECT_EQ(check_nodes(s, 3).size(), 1u);
}

TEST(sim_file, a_crash_trace_is_read_and_bad_lines_are_named) {
  const auto read = [](const std::string& text) { return parse_fault_trace(text, "trace.txt"); };
  const auto r = read("# time, node, duration\n\n3.5h 17 20min\n1s 2   # no restart\n");
  const auto* all = r ? &*r : nullptr;
  ASSERT_TRUE(all);
  ASSERT_EQ(all->size(), 2u);
  EXPECT_EQ((*all)[0].what.at, std::chrono::minutes(210));
  EXPECT_EQ((*all)[0].what.node, 16u);
  EXPECT_EQ((*all)[0].what.down, std::chrono::minutes(20));
  EXPECT_EQ((*all)[0].at.line, 3);
  EXPECT_LT((*all)[1].what.down.count(), 0);
  for (const char* bad : {"1s\n", "1s 0\n", "1 2\n", "1s 2 3\n", "1s 2 3s 4\n", "1s 70000\n", "-1s 2\n", "1s x\n"}) {
    const auto no = read("2s 3\n" + std::string(bad));
    const auto* d = no ? nullptr : &no.error();
    ASSERT_TRUE(d) << bad;
    EXPECT_EQ(d->front().to_string(), "trace.txt:2:1: write \"TIME NODE\" or \"TIME NODE DOWN\", as in \"3.5h 17 20min\"");
  }
  const auto none = read("# nothing\n");
  EXPECT_FALSE(none);
}

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
