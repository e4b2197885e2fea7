// Stops a member or a client of a cluster (SIGSTOP) while the others work, and measures their
// memory (promise 14).
#pragma once

#include <signal.h>

#include <algorithm>
#include <cstdio>

#include "tests/cluster/processes.hpp"
#include "tests/faults/memory_of.hpp"

namespace troupe::testing_cluster {

class stopping_test : public cluster_test {
 protected:
  static constexpr double budget = 64;  // MiB that a data connection may have in flight

  // The largest growth of memory in MiB of each of `nodes` while `who` is stopped for this time.
  std::map<std::string, double> growth(process& who, const std::vector<std::string>& nodes, millis time) {
    std::map<std::string, double> before, most;
    for (const auto& n : nodes) before[n] = memory_of(daemon(n));
    who.signal(SIGSTOP);
    for (const auto begun = clock::now(); since(begun) < time;) {
      daemon(nodes.front()).wait_log("\x01", 200ms);
      for (const auto& n : nodes) most[n] = std::max(most[n], memory_of(daemon(n)) - before[n]);
    }
    who.signal(SIGCONT);
    return most;
  }
  // Adds layers of 1 MB, so that unsent data would soon be large.
  static std::vector<std::string> large(std::vector<std::string> set) {
    set.emplace_back("layer.ip1.outputs=2000");
    return endless(std::move(set));
  }

  // Stops a member of a job with these settings.
  void stop_a_member(const std::vector<std::string>& mode, millis time) {
    auto set = large(workers(4, 2));
    set.insert(set.end(), mode.begin(), mode.end());
    auto b = begin(tiny_job(), set);
    ASSERT_TRUE(b->wait_event("step", 30s, 60));
    const auto more = growth(daemon("n3"), {"n1", "n2", "n4"}, time);
    for (const auto& [node, mib] : more) {
      std::printf("a member stopped for %d s: %s took %.1f MiB more\n", static_cast<int>(time / 1s), node.c_str(), mib);
      EXPECT_LE(mib, budget + 64) << node;
    }
    ASSERT_TRUE(joined("n3"));
    ASSERT_EQ(ask("n1", "stop").how, repl_reply::kind::ok);
    EXPECT_EQ(b->join().outcome.exit_code(), 0);
  }

  // Stops the program that has submitted a job and prints a line for every step.
  void stop_a_client(const std::string& programs, millis time) {
    const auto job = write("job.toml", tiny_job());
    std::vector<std::string> words{programs + "/troupe", "train", job, "--json", "--cluster", path("cluster.toml")};
    for (const auto& s : endless(workers(4, 2))) words.insert(words.end(), {"--set", s});
    process client(words, folder_);
    ASSERT_TRUE(client.wait_out("\"step\":100,", 30s)) << client.out() << client.log();
    for (const auto& [node, mib] : growth(client, {"n1", "n2", "n3", "n4"}, time)) {
      std::printf("a client stopped for %d s: %s took %.1f MiB more\n", static_cast<int>(time / 1s), node.c_str(), mib);
      EXPECT_LE(mib, 64) << node;
    }
    ASSERT_EQ(ask("n1", "stop").how, repl_reply::kind::ok);
  }
};

}  // namespace troupe::testing_cluster
