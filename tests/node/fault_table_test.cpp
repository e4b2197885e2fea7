// [[fault]] tables: their meaning, the position of every mistake, traces, and files that repeat a
// list of happenings.
#include <gtest/gtest.h>

#include "runtime/node/config/fault_trace.hpp"
#include "runtime/node/config/faults_toml.hpp"
#include "tests/node/sim_texts.hpp"
#include "tests/sim/happenings.hpp"

namespace troupe {
namespace {

const sim_texts::row wrong_faults[] = {
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
    {"[[fault]]\nkind = \"partition\"\nnodes = [0]\nuntil = \"1s\"\n", "3:10",
     "'nodes' must be a list of nodes, as numbers counted from 1 or as names"},
    {"[[fault]]\nkind = \"partition\"\nnodes = [1]\nuntil = \"1s\"\nfactor = 2\n", "5:1", "unknown key 'factor'"},
    {"[[fault]]\nkind = \"slow\"\nnodes = [1]\n", "1:1", "it needs a factor"},
    {"[[fault]]\nkind = \"crash\"\n", "1:1", "it needs 'from'"},
    {"[[fault]]\nkind = \"crash\"\nfrom = \"2s\"\nuntil = \"1s\"\n", "4:1", "'until' is before 'from'"},
    {"[[fault]]\nkind = \"crash\"\nfrom = \"2s\"\nnodes = [2]\nroles = [\"host0\"]\n", "5:1",
     "a fault of kind crash: a role does not crash without its node: write kind = \"kill\" and 'nodes' with the role's node "
     "(`troupe plan` shows it)"},
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
    {"[[fault]]\nkind = \"crash\"\nfrom = \"0s\"\ngroups = [[2], [0]]\n", "4:17", "a list of lists of nodes"},
    {"[[fault]]\nkind = \"crash\"\nfrom = \"0s\"\ngroups = [2]\n", "4:11", "a list of lists of nodes"},
    {"[[fault]]\nkind = \"crash\"\nfrom = \"0s\"\nnodes = [2]\nrack = 4\n", "5:1", "give 'nodes' or groups, not both"},
    {"[[fault]]\nkind = \"crash\"\ntrace = \"no_such_file.txt\"\n", "3:1", "no_such_file.txt"},
    {"[[fault]]\nkind = \"slow_disk\"\nnodes = [1]\n", "1:1", "it needs a factor on the time of checkpoints"},
    {"[[fault]]\nkind = \"skew\"\nnodes = [1]\n", "1:1", "it needs a rate, 'ahead', or both"},
    {"[[fault]]\nkind = \"skew\"\nnodes = [1]\nrate = 3\n", "4:1", "'rate' must be between 0.5 and 2"},
    {"[[fault]]\nkind = \"skew\"\nnodes = [1]\nrate = 1.1\nfrom = \"1s\"\n", "5:1", "remove 'from'"},
    {"[[fault]]\nkind = \"kill\"\n", "1:1", "a fault of kind kill: it needs 'from'"},
    {"[[fault]]\nkind = \"kill\"\nfrom = \"1s\"\nrestart_after = 3\n", "4:1", "'restart_after' must be a string"},
    {"[[fault]]\nkind = \"kill\"\nfrom = \"1s\"\nnodes = [\"\"]\n", "4:10", "as numbers counted from 1 or as names"},
    {"[[fault]]\nkind = \"kill\"\nfrom = \"1s\"\nnodes = \"n2\"\n", "4:1", "'nodes' must be a list of nodes"},
    {"[[fault]]\nkind = \"kill\"\nfrom = \"1s\"\nroles = [\"shard0\"]\n", "4:1", "a role does not crash without its node"},
    {"[[fault]]\nkind = \"lose\"\nfrom = \"1s\"\ntime = \"1s\"\n", "4:1", "a fault of kind lose: unknown key 'time'"},
    {"[[fault]]\nkind = \"lose\"\nevery = { mean = \"1h\" }\n", "1:1", "it needs an end, 'until'"},
    {"[[fault]]\nkind = \"stop\"\nfrom = \"1s\"\n", "1:1",
     "a fault of kind stop: it needs a time, after which the daemon continues"},
    {"[[fault]]\nkind = \"stop\"\nfrom = \"1s\"\ntime = \"1s\"\nrestart_after = \"1s\"\n", "5:1", "unknown key 'restart_after'"},
    {"[[fault]]\nkind = \"drain\"\nfrom = \"1s\"\nfactor = 2\n", "4:1", "a fault of kind drain: unknown key 'factor'"},
    {"[[fault]]\nkind = \"drain\"\nfrom = \"1s\"\ntimes = 0\n", "4:1", "'times' must be between 1 and"},
    {"[[fault]]\nkind = \"disk_full\"\n", "1:1", "a fault of kind disk_full: it needs nodes"},
    {"[[fault]]\nkind = \"disk_full\"\nnodes = [1]\nfactor = 2\n", "4:1", "unknown key 'factor'"},
    {"[[fault]]\nkind = \"disk_full\"\nnodes = [1]\ntimes = 2\n", "4:1", "unknown key 'times'"},
    {"[[fault]]\nkind = \"cut\"\nnodes = [1]\n", "1:1", "a fault of kind cut: it needs an end, 'until'"},
    {"[[fault]]\nkind = \"cut\"\nuntil = \"1s\"\n", "1:1", "a fault of kind cut: it needs nodes"},
    {"[[fault]]\nkind = \"cut\"\nnodes = [1]\nuntil = \"1s\"\nto = []\n", "5:1", "'to' must be a list of nodes"},
    {"[[fault]]\nkind = \"cut\"\nnodes = [1]\nuntil = \"1s\"\nto = [2, 70000]\n", "5:10", "'to' must be a list of nodes"},
    {"[[fault]]\nkind = \"cut\"\nnodes = [1]\nuntil = \"1s\"\nplane = \"date\"\n", "5:1",
     "unknown plane 'date'; did you mean 'data'? (available: both, control, data)"},
    {"[[fault]]\nkind = \"cut\"\nnodes = [1]\nuntil = \"1s\"\nboth = 1\n", "5:1", "'both' must be true or false"},
    {"[[fault]]\nkind = \"partition\"\nnodes = [1]\nuntil = \"1s\"\nto = [2]\n", "5:1", "unknown key 'to'"},
};

TEST(fault_table, every_mistake_names_its_position) { sim_texts::expect_mistakes(wrong_faults); }

TEST(fault_table, rates_groups_clocks_and_disks_are_read) {
  const auto s = sim_texts::good(R"(
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
  auto named = s;
  EXPECT_EQ(find_nodes(named, sim_texts::numbered(3)).size(), 1u);
}

TEST(fault_table, faults_of_daemons_are_read) {
  auto s = sim_texts::good(R"(
[[fault]]
kind = "kill"
nodes = [1]
from = "2s"
restart_after = "1500ms"
[[fault]]
kind = "stop"
rack = 4
every = { mean = "2h" }
until = "1d"
time = "6s"
[[fault]]
kind = "drain"
groups = [[3, "left"]]
from = "2592000000000003ns"
[[fault]]
kind = "cut"
nodes = ["left"]
to = [1, "right"]
plane = "data"
both = true
from = "1s"
until = "2s"
)");
  ASSERT_EQ(s.faults.list.size(), 4u);
  EXPECT_EQ(s.faults.list[0].restart_after, std::chrono::milliseconds(1500));
  EXPECT_EQ(s.faults.list[1].restart_after, std::chrono::seconds(6));
  EXPECT_EQ(s.faults.list[1].when, sim::crash_times::exponential);
  EXPECT_EQ(s.faults.list[2].from.count(), 2'592'000'000'000'003) << "exact";
  EXPECT_TRUE(s.faults.list[3].both_ways);
  EXPECT_EQ(s.faults.list[3].plane, sim::fault_plane::data);
  auto other = s;
  const auto wrong = find_nodes(other, {"a", "rigth"});
  ASSERT_EQ(wrong.size(), 4u);
  EXPECT_EQ(wrong[0].to_string(), "sim.toml:15:12: there is no node 3: the cluster has 2");
  EXPECT_EQ(wrong[1].to_string(), "sim.toml:15:15: there is no node 'left' in the cluster");
  EXPECT_EQ(wrong[3].to_string(), "sim.toml:20:10: there is no node 'right' in the cluster; did you mean 'rigth'?");
  EXPECT_TRUE(find_nodes(s, {"a", "right", "b", "left"}).empty());
  EXPECT_EQ(s.faults.list[2].groups, (std::vector<std::vector<std::uint32_t>>{{2, 3}}));
  EXPECT_EQ(s.faults.list[3].nodes, std::vector<std::uint32_t>{3});
  EXPECT_EQ(s.faults.list[3].to, (std::vector<std::uint32_t>{0, 1}));
}

TEST(fault_table, written_faults_are_read_back_exactly) {
  for (std::uint64_t seed = 1; seed <= 1000; ++seed) {
    const auto list = sim::random_happenings(seed, 20);
    const auto wire = sim::random_wire_faults(seed, 20);
    const auto text = faults_toml(list, wire);
    auto s = sim_texts::good(text);
    EXPECT_TRUE(find_nodes(s, sim_texts::numbered(20)).empty());
    ASSERT_EQ(sim::draw_schedule(s.faults, 20, seed), list) << text;
    ASSERT_EQ(sim::wire_faults(s.faults), wire) << text;
  }
}

TEST(fault_table, written_faults_are_short) {
  sim::happening h;
  h.kind = sim::fault_kind::cut;
  h.at = std::chrono::seconds(90);
  h.nodes = {1, 2};
  h.length = std::chrono::milliseconds(1500);
  sim::happening stop;
  stop.kind = sim::fault_kind::stop;
  stop.nodes = {0, 3};
  stop.at = stop.length = std::chrono::seconds(100);
  EXPECT_EQ(faults_toml({h, stop}),
            "[[fault]]\nkind = \"cut\"\nnodes = [2, 3]\nfrom = \"90s\"\nuntil = \"91500ms\"\n\n"
            "[[fault]]\nkind = \"stop\"\ngroups = [[1, 4]]\nfrom = \"100s\"\ntime = \"100s\"\n");
}

TEST(fault_table, a_crash_trace_is_read_and_bad_lines_are_named) {
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

}  // namespace
}  // namespace troupe
