// `troupe doctor`: what facts about a machine and its links are judged to be, the JSON in which
// they travel, and the file of what was measured.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "runtime/node/config/sim_file.hpp"
#include "runtime/node/machine/checks.hpp"
#include "runtime/node/machine/facts_json.hpp"
#include "runtime/node/machine/machine_file.hpp"

namespace troupe::machine {
namespace {

using ::testing::HasSubstr;

constexpr std::uint64_t GiB = std::uint64_t{1} << 30;

facts healthy() {
  facts f;
  f.version = "1.0";
  f.processor = {"Xeon", 4, 4, 0, {"AVX2", "AVX-512"}, "x86-64-v4", "OpenBLAS 0.3.21", "SkylakeX", "OpenMP", ""};
  f.speed = {"", 4, "AVX-512", 200e9, 800e9, 150e9, 590e9, 16e9};
  f.memory = {16 * GiB, 12 * GiB, "this machine has", 0, 0, 0};
  f.clock = {"tsc", 25e-9, true, true, 1.7e9};
  f.folders = {{"runs", "runs", "", 500 * GiB, 300 * GiB, 1e9, 1e-3}};
  f.limits = {65536, 65536, 8 << 20, 0};
  f.certificates = {{"n1", "certs/n1", "", "", 3000}};
  f.interfaces = {{"lo", {"127.0.0.1"}, 0, true}, {"eth0", {"10.0.0.4"}, 10000, false}};
  f.address = "10.0.0.4";
  f.why_no_gpu = "no driver";
  return f;
}

check find(const std::vector<check>& list, const std::string& name) {
  for (const auto& c : list)
    if (c.name == name) return c;
  ADD_FAILURE() << "no check " << name;
  return {};
}
check judged(const facts& f, const std::string& name) { return find(checks_of(f, "n1", "c.toml"), name); }

void expect_bad(const check& c, verdict v, const std::string& text, const std::string& next) {
  EXPECT_EQ(c.state, v) << c.name;
  EXPECT_THAT(c.text, HasSubstr(text)) << c.name;
  EXPECT_THAT(c.next, HasSubstr(next)) << c.name;
}

TEST(machine_checks, are_all_ok_without_advice_on_a_healthy_machine) {
  const auto list = checks_of(healthy(), "n1", "c.toml");
  EXPECT_GE(list.size(), 10u);
  for (const auto& c : list) {
    EXPECT_EQ(c.state, verdict::ok) << c.name << ": " << c.text;
    EXPECT_EQ(c.text + c.next, "") << c.name;
    EXPECT_NE(c.value, "") << c.name;
    EXPECT_EQ(c.node, "n1");
  }
  EXPECT_THAT(judged(healthy(), "speed").value, HasSubstr("sgemm 150 GFLOP/s (75 % of the AVX-512 peak), 590 on 4 threads"));
}

TEST(machine_checks, name_the_coretype_when_openblas_uses_kernels_of_an_old_processor) {
  auto f = healthy();
  f.processor.blas_kernel = "Prescott";
  f.speed.sgemm_one = 24e9;
  expect_bad(judged(f, "blas"), verdict::warn, "the kernels for Prescott do not use: sgemm reaches 12 % of the processor's peak",
             "systemctl edit trouped (Environment=OPENBLAS_CORETYPE=SkylakeX)");
  const auto here = find(checks_of(f, "", ""), "blas");
  EXPECT_EQ(here.next, "export OPENBLAS_CORETYPE=SkylakeX && troupe doctor");
  f.processor.coretype = "Prescott";
  EXPECT_EQ(find(checks_of(f, "", ""), "blas").next, "unset OPENBLAS_CORETYPE && troupe doctor");
  expect_bad(judged(f, "blas"), verdict::warn, "Prescott", "UnsetEnvironment=OPENBLAS_CORETYPE");
  f.processor.coretype.clear();
  f.processor.extensions = {"AVX2"};
  expect_bad(judged(f, "blas"), verdict::warn, "AVX2", "OPENBLAS_CORETYPE=Haswell");
  f.speed = {};
  f.speed.skipped = "a job runs";
  expect_bad(judged(f, "blas"), verdict::warn, "AVX2", "OPENBLAS_CORETYPE=Haswell");
  EXPECT_EQ(judged(f, "speed").value, "not measured: a job runs");
}

TEST(machine_checks, accept_kernels_for_avx2_that_are_fast_enough_on_avx512) {
  auto f = healthy();
  f.processor.blas_kernel = "Zen";
  EXPECT_EQ(judged(f, "blas").state, verdict::ok) << "Zen 4 adds as fast with 256 bits";
  f.speed.sgemm_one = 80e9;
  EXPECT_EQ(judged(f, "blas").state, verdict::warn);
}

TEST(machine_checks, suspect_other_programs_when_sgemm_is_slow_or_threads_gain_little) {
  auto f = healthy();
  f.speed.sgemm_one = 60e9;
  expect_bad(judged(f, "blas"), verdict::warn, "other programs", "top");
  f = healthy();
  f.speed.sgemm_all = 200e9;
  expect_bad(judged(f, "speed"), verdict::warn, "4 threads compute only 1.33 times as much as one", "top");
}

TEST(machine_checks, name_the_quota_of_a_cgroup_and_processors_without_avx2) {
  auto f = healthy();
  f.processor.quota = 1.5;
  expect_bad(judged(f, "processor"), verdict::warn, "allows 1.50 of these cores", "--threads 2");
  f = healthy();
  f.processor.kernels = "baseline";
  EXPECT_EQ(judged(f, "processor").state, verdict::warn);
}

TEST(machine_checks, judge_memory_swap_and_overcommit) {
  auto f = healthy();
  f.memory.free = GiB / 2;
  expect_bad(judged(f, "memory"), verdict::warn, "small nets", "troupe plan");
  f.memory.free = GiB / 8;
  expect_bad(judged(f, "memory"), verdict::fail, "a job needs more", "ps aux");
  f.memory.swap_total = 4 * GiB, f.memory.swap_used = 2 * GiB;
  expect_bad(judged(f, "swap"), verdict::warn, "swaps", "ps aux");
  f.memory.overcommit = 2;
  expect_bad(judged(f, "overcommit"), verdict::warn, "reserved", "sysctl vm.overcommit_memory=0");
}

TEST(machine_checks, judge_the_clock) {
  auto f = healthy();
  f.clock.source = "hpet", f.clock.reading = 1.4e-6;
  expect_bad(judged(f, "clock"), verdict::warn, "readings are slow", "available_clocksource");
  f = healthy();
  f.clock.synchronised = false;
  EXPECT_EQ(judged(f, "clock").state, verdict::ok) << "training does not depend on the time of day";
  EXPECT_THAT(judged(f, "clock").value, HasSubstr("not synchronised with a time server"));
}

TEST(machine_checks, judge_full_slow_and_unwritable_disks) {
  auto f = healthy();
  f.folders[0].free = 100 << 20;
  expect_bad(judged(f, "disk runs"), verdict::fail, "full", "troupe runs");
  f.folders[0].free = GiB;
  expect_bad(judged(f, "disk runs"), verdict::warn, "may fill", "df -h runs");
  f = healthy();
  f.folders[0].sync = 0.3;
  expect_bad(judged(f, "disk runs"), verdict::warn, "slow", "iostat");
  f.folders[0].problem = "Permission denied";
  expect_bad(judged(f, "disk runs"), verdict::fail, "Permission denied", "--run-dir");
  f.folders[0].purpose = "state";
  expect_bad(judged(f, "disk state"), verdict::fail, "Permission denied", "--state");
}

TEST(machine_checks, judge_the_limit_of_open_files) {
  auto f = healthy();
  f.limits.open_files = 256;
  expect_bad(judged(f, "limits"), verdict::warn, "one open file each", "ulimit -n 65536");
  f.limits.most_open_files = 256;
  expect_bad(judged(f, "limits"), verdict::warn, "", "LimitNOFILE");
}

TEST(machine_checks, judge_certificates_by_their_fault) {
  const auto of = [](const std::string& code, double days) {
    return check_of({"n1", "certs/n1", code, code.empty() ? "" : "it is wrong", days}, "c.toml");
  };
  expect_bad(of("certificate_expired", -3), verdict::fail, "wrong", "troupe certs renew n1 --cluster c.toml");
  expect_bad(of("key_exposed", 3000), verdict::fail, "wrong", "chmod 600 certs/n1/n1.key");
  expect_bad(of("certificate_missing", 0), verdict::fail, "wrong", "troupe init-cluster --cluster c.toml");
  expect_bad(of("certificate_not_yet_valid", 30), verdict::fail, "wrong", "timedatectl");
  expect_bad(of("", 12.5), verdict::warn, "expires soon", "troupe certs renew n1");
  EXPECT_EQ(of("", 12.5).value, "valid for 12 days");
  EXPECT_EQ(of("", 31).state, verdict::ok);
}

TEST(machine_checks, name_a_faster_interface_that_is_not_used) {
  auto f = healthy();
  f.interfaces.push_back({"ib0", {"fd00::4", "10.1.0.4"}, 100000, false});
  expect_bad(judged(f, "network"), verdict::warn, "ib0 10.1.0.4 100 Gbit/s is faster", "data_address = \"10.1.0.4:PORT\"");
  EXPECT_EQ(judged(f, "network").value, "eth0 10.0.0.4 10.0 Gbit/s");
  f.address = "10.1.0.4";
  EXPECT_EQ(judged(f, "network").state, verdict::ok);
  f.address = "127.0.0.2";
  EXPECT_THAT(judged(f, "network").value, HasSubstr("only nodes of this machine"));
  f.address.clear();
  EXPECT_EQ(judged(f, "network").value, "eth0 10.0.0.4 10.0 Gbit/s, ib0 10.1.0.4 100 Gbit/s");
}

TEST(machine_checks, judge_gpus) {
  auto f = healthy();
  f.nvidia_driver = true;
  expect_bad(judged(f, "gpu"), verdict::warn, "driver is loaded", "troupe device_query");
  f.gpus = {{"gpu:0 H100", "fell off the bus"}};
  expect_bad(judged(f, "gpu"), verdict::fail, "fell off the bus", "nvidia-smi");
}

TEST(machine_checks, say_what_to_do_when_a_daemon_does_not_answer) {
  const auto of = [](const contact& c) { return find(checks_of(c, "1.0", "c.toml"), "daemon"); };
  contact c{"n2", "10.0.0.5:7701", "", false, false, "up", "", "1.0", 0};
  EXPECT_EQ(of(c).state, verdict::ok);
  c.version = "0.9";
  expect_bad(of(c), verdict::fail, "version 1.0", "same version");
  c.version = "1.0", c.state = "lost", c.note = "n3 cannot reach it";
  expect_bad(of(c), verdict::fail, "lost: n3 cannot reach it", "troupe repl --cluster c.toml -c nodes");
  c.problem = "the daemon of node n2 does not answer", c.state = "absent";
  expect_bad(of(c), verdict::fail, "does not answer", "systemctl status trouped");
  c.state = "up";
  expect_bad(of(c), verdict::fail, "does not answer", "on the machine of the coordinator");
  c.here = true;
  expect_bad(of(c), verdict::fail, "no daemon runs", "trouped --cluster c.toml --node n2");
  c.port_taken = true;
  expect_bad(of(c), verdict::fail, "holds the port", "ss -ltnp | grep :7701");
}

TEST(machine_checks, name_clocks_that_differ) {
  contact c{"n2", "10.0.0.5:7701", "", false, false, "up", "", "1.0", 3600};
  expect_bad(find(checks_of(c, "1.0", "c.toml"), "time"), verdict::warn, "wrong time", "set-ntp");
  c.clock_ahead = -2e5;
  expect_bad(find(checks_of(c, "1.0", "c.toml"), "time"), verdict::fail, "refused", "set-ntp");
  EXPECT_THAT(find(checks_of(c, "1.0", "c.toml"), "time").value, HasSubstr("behind"));
}

std::vector<link> three_nodes() {
  std::vector<link> list;
  for (const char* from : {"n1", "n2", "n3"})
    for (const char* to : {"n1", "n2", "n3"})
      if (std::string(from) != to) list.push_back({from, to, "", 1e-4, 1.2e9, "", false});
  return list;
}

TEST(machine_links, are_ok_when_they_are_alike) {
  for (const auto& c : checks_of(three_nodes())) EXPECT_EQ(c.state, verdict::ok) << c.name;
  EXPECT_EQ(checks_of(three_nodes())[0].value, "9.60 Gbit/s, 100 us round trip");
}

TEST(machine_links, are_named_when_slow_lopsided_late_or_broken) {
  auto links = three_nodes();
  links[0].rate = 0.12e9;
  links[1].rate = 0.5e9;
  links[2].round_trip = 0.02;
  links[3].problem = "no connection";
  const auto list = checks_of(links);
  expect_bad(find(list, "link n1 to n2"), verdict::warn, "most links carry 9.60 Gbit/s", "ethtool");
  expect_bad(find(list, "link n1 to n3"), verdict::warn, "the way back carries 9.60 Gbit/s", "ethtool");
  expect_bad(find(list, "link n2 to n1"), verdict::warn, "most links take 100 us", "mtr n1");
  expect_bad(find(list, "link n2 to n3"), verdict::fail, "no connection", "nc -vz");
}

TEST(machine_json, returns_the_same_facts) {
  auto f = healthy();
  f.gpus = {{"gpu:0 H100", "x"}};
  const auto text = to_json(f);
  const auto read = facts_of_json(text);
  ASSERT_TRUE(read) << read.error().text;
  EXPECT_EQ(to_json(*read), text);
  EXPECT_THAT(text, HasSubstr("\"blas_kernel\":\"SkylakeX\""));
  const auto links = three_nodes();
  EXPECT_EQ(to_json(link_of_json(to_json(links[0])).value()), to_json(links[0]));
}

TEST(machine_json, keeps_defaults_for_absent_members_and_refuses_other_texts) {
  const auto partly = facts_of_json(R"({"version": "2.0", "from_the_future": 1})");
  ASSERT_TRUE(partly);
  EXPECT_EQ(partly->version, "2.0");
  EXPECT_EQ(partly->memory.total, 0u);
  for (const char* text : {"", "[]", "{", R"({"memory": 7})", R"({"version": 7})"}) EXPECT_FALSE(facts_of_json(text)) << text;
}

TEST(machine_file, is_read_by_the_simulator_with_the_measured_values) {
  auto slow = healthy(), none = healthy();
  slow.speed.sgemm_all = 295e9;
  none.speed = {};
  auto links = three_nodes();
  for (auto& l : links)
    if (l.from == "n3" || l.to == "n3") l.rate = 0.12e9;
  const auto text = machine_file({{"n1", 4, healthy()}, {"n2", 2, slow}, {"n3", 4, healthy()}, {"n4", 4, none}}, links, "Test.");
  const auto read = parse_sim(text, "machine.toml");
  ASSERT_TRUE(read) << read.error().front().to_string() << "\n" << text;
  EXPECT_EQ(read->network.fabric, sim::fabric_kind::star);
  EXPECT_DOUBLE_EQ(read->network.bytes_per_second, 1.2e9);
  EXPECT_EQ(read->network.latency, duration(25000)) << "a quarter of the round trip";
  ASSERT_EQ(read->network.node_bytes_per_second.size(), 1u);
  EXPECT_EQ(read->network.node_bytes_per_second[0], (std::pair<std::uint32_t, double>(2, 0.12e9)));
  EXPECT_DOUBLE_EQ(read->compute.flops_per_second, 147.5e9);
  EXPECT_EQ(read->compute.cores, 2u) << "the least of the nodes";
  ASSERT_EQ(read->compute.slow.size(), 1u);
  EXPECT_EQ(read->compute.slow[0], (std::pair<std::uint32_t, double>(1, 2.0)));
  ASSERT_TRUE(read->disk);
  EXPECT_DOUBLE_EQ(read->disk->bytes_per_second, 1e9);
}

TEST(machine_file, has_the_rate_of_shared_memory_only_if_all_nodes_are_on_one_machine) {
  const std::vector<measured_node> nodes{{"n1", 1, healthy()}, {"n2", 1, healthy()}, {"n3", 1, healthy()}};
  auto links = three_nodes();
  for (auto& l : links)
    if (l.from != "n3" && l.to != "n3") l.same_machine = true, l.rate = 9e9;
  const auto of = [&] { return parse_sim(machine_file(nodes, links, "Test."), "machine.toml").value().network; };
  EXPECT_DOUBLE_EQ(of().bytes_per_second, 1.2e9);
  EXPECT_TRUE(of().node_bytes_per_second.empty());
  for (auto& l : links) l.same_machine = true, l.rate = 9e9;
  EXPECT_DOUBLE_EQ(of().bytes_per_second, 9e9);
}

TEST(machine_file, leaves_out_what_was_not_measured) {
  auto f = healthy();
  f.speed = {};
  f.folders.clear();
  const auto text = machine_file({{"n1", 1, f}}, {}, "Test.");
  EXPECT_EQ(text.find("\n["), std::string::npos) << text;
}

}  // namespace
}  // namespace troupe::machine
