// Memory of daemons after their jobs: a job's memory is freed, so a daemon needs no more after ten
// jobs than after two.
//
// The test measures VmRSS minus RssFile of /proc/PID/status: anonymous memory, and memory that
// daemons of one machine share (shared buffers). Programs, libraries and mapped data files are not
// included.
//
// TROUPE_KEPT_MODES=all: every mode, otherwise gossip and bsp. TROUPE_KEPT_STEPS: steps of each
// job.
#include <fstream>

#include "tests/cluster/modes.hpp"
#include "tests/cluster/processes.hpp"
#include "tests/environment.hpp"

namespace troupe::testing_cluster {
namespace {

constexpr double max_more = 32;  // MiB

std::map<std::string, double> memory_rows(pid_t pid) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/status");
  std::map<std::string, double> mib;
  for (std::string line; std::getline(in, line);)
    if (const auto colon = line.find(':'); colon != std::string::npos && line.ends_with(" kB"))
      mib[line.substr(0, colon)] = std::stod(line.substr(colon + 1)) / 1024;
  return mib;
}

double kept_by(const process& p) {
  auto mib = memory_rows(p.pid());
  return mib["VmRSS"] - mib["RssFile"];
}

std::vector<std::string> modes_to_try() {
  const char* which = std::getenv("TROUPE_KEPT_MODES");
  if (!which || std::string(which) != "all") return {"bsp", "gossip"};
  std::vector<std::string> names;
  for (const auto& [name, set] : modes_for_four_nodes()) names.push_back(name);
  return names;
}

class cluster_kept_memory : public cluster_test, public testing::WithParamInterface<std::string> {};

TEST_P(cluster_kept_memory, memory_is_no_more_after_ten_jobs_than_after_two) {
  auto set = modes_for_four_nodes().at(GetParam());
  if (set.empty() || set.back().find("topology=") == std::string::npos) set.emplace_back("topology.workers_per_group=4");
  set.push_back("train.finish={steps=" + std::to_string(from_environment("TROUPE_KEPT_STEPS", 300)) + "}");
  set.emplace_back("eval.every=0");
  set.emplace_back("layer.ip1.outputs=2000");  // 1 MB of weights
  make_cluster(4);
  start_all();
  std::map<std::string, double> after_two;
  for (int job = 1; job <= 10; ++job) {
    const auto r = run(tiny_job(), set);
    ASSERT_EQ(r.outcome.how, cluster_outcome::end::done) << (r.events.empty() ? "" : message_of(r.events.back().event));
    if (job == 2)
      for (const auto& n : names_) after_two[n] = kept_by(daemon(n));
  }
  std::printf("| mode | daemon | after 2 jobs, MiB | after 10 jobs, MiB |\n");
  for (const auto& n : names_) {
    // A daemon frees memory when its job has ended; its client may be notified shortly before that.
    const auto until = clock::now() + 10s;
    auto now = kept_by(daemon(n));
    while (now > after_two[n] + max_more && clock::now() < until) now = kept_by(daemon(n));
    std::printf("| %s | %s | %.1f | %.1f |\n", GetParam().c_str(), n.c_str(), after_two[n], now);
    EXPECT_LE(now, after_two[n] + max_more) << n;
  }
}

INSTANTIATE_TEST_SUITE_P(modes, cluster_kept_memory, testing::ValuesIn(modes_to_try()), [](const auto& p) { return p.param; });

}  // namespace
}  // namespace troupe::testing_cluster
