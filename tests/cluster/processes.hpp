// Clusters of real daemons for tests: a folder with a cluster file and certificates, child
// processes with pipes, and waits for output with deadlines. No wait uses sleep.
#pragma once

#include <gtest/gtest.h>
#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "actors/control/client/client.hpp"
#include "actors/repl/repl.hpp"

namespace troupe::testing_cluster {

using namespace std::chrono_literals;
using clock = std::chrono::steady_clock;
using millis = std::chrono::milliseconds;

inline millis since(clock::time_point t) { return std::chrono::duration_cast<millis>(clock::now() - t); }

// A child process. Its stdout and stderr are read during every wait.
class process {
 public:
  // `bad_disk`: its fsync fails (failing_fsync.hpp).
  process(const std::vector<std::string>& changes, const std::filesystem::path& where, bool bad_disk = false);
  ~process();  // SIGKILL if it still runs
  process(const process&) = delete;
  process& operator=(const process&) = delete;

  bool wait_out(const std::string& part, millis within);  // until stdout contains it
  bool wait_log(const std::string& part, millis within);  // stderr
  bool closed(millis within);                             // both streams have ended
  int wait(millis within = 60s);                          // exit code; 128 + signal; -1 if it still runs
  void signal(int number) const;
  const std::string& out() const { return text_[0]; }
  const std::string& log() const { return text_[1]; }
  pid_t pid() const { return pid_; }
  std::size_t descriptors() const;

 private:
  bool pump(clock::time_point until);
  template <class F>
  bool until(millis within, F done);

  pid_t pid_ = -1;
  int ends_[2] = {-1, -1};
  std::string text_[2];
};

// A port on the loopback interface that no other socket gets while this process lives; a daemon can
// listen there. Throws std::runtime_error if there is none.
std::uint16_t free_port();

// n1 (coordinator, worker, server, data), n2, n3, ... (worker, server).
class cluster_test : public testing::Test {
 protected:
  cluster_test();
  ~cluster_test() override;

  // Settings of the cluster file; set them before make_cluster().
  bool machines_apart_ = false;  // shared_memory = false, like nodes on different machines
  std::vector<std::string> plugins_, data_;
  std::vector<std::string> before_;  // prepended to a daemon's command line, for a program that execs it
  void make_cluster(int nodes);
  // Nodes and roles of a file in configs/clusters, on free ports. The first node is the
  // coordinator.
  void make_cluster_like(const std::string& file);
  void start(const std::string& node, bool bad_disk = false);
  void start_all();  // and waits until all have joined
  bool joined(const std::string& node, millis within = 15s);
  process& daemon(const std::string& node) { return *daemons_.at(node); }
  void kill_hard(const std::string& node);  // SIGKILL, and reaps it

  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  void make_cluster_of(const std::vector<node_spec>& nodes);

  std::string write(const std::string& name, const std::string& text) const;
  cluster_address coordinator() const;
  cluster_address address_of(const std::string& node) const;
  std::uint16_t control_port(const std::string& node) const { return ports_.at(node); }
  std::uint16_t data_port(const std::string& node) const;  // from its `ready` line

  struct run_result {
    cluster_outcome outcome;
    std::vector<job_event> events;
    std::string text(const char* name) const;  // of the last event
    double value(const char* name) const;      // of the last event; -1 if it has none
    std::size_t count(const std::string& kind) const;
  };
  run_result run(const std::string& text, const std::vector<std::string>& set = {}, const std::string& out = {});
  static run_result run_all(const cluster_submission& s);
  run_result run_with(cluster_submission::beginning from, const std::string& file, const std::string& text,
                      const std::vector<std::string>& set);
  // The same in a background thread.
  class background;
  std::unique_ptr<background> begin(const std::string& text, const std::vector<std::string>& set = {});
  std::unique_ptr<background> begin_with(cluster_submission::beginning from, const std::string& file, const std::string& text,
                                         const std::vector<std::string>& set);

  repl_reply ask(const std::string& node, const std::string& line, bool json = false) {
    return ask_at(address_of(node), line, json);
  }
  static repl_reply ask_at(const cluster_address& where, const std::string& line, bool json = false);

  std::chrono::milliseconds wait_for_daemon_{30000};  // for jobs in the background
  std::filesystem::path folder_;
  std::vector<std::string> names_;
  std::map<std::string, std::uint16_t> ports_;
  std::map<std::string, std::unique_ptr<process>> daemons_;
  std::map<std::string, int> starts_;
};

// A job that trains in about a second. To let it run until it is stopped, use `endless`.
std::string tiny_job();
std::vector<std::string> workers(int n, int shards);
std::vector<std::string> endless(std::vector<std::string> set);

}  // namespace troupe::testing_cluster

#include <condition_variable>
#include <mutex>
#include <thread>

namespace troupe::testing_cluster {

class cluster_test::background {
 public:
  background(cluster_submission s);
  ~background();
  bool wait_event(const std::string& kind, millis within, std::uint64_t step = 0);  // an event with at least that step
  run_result join();                                                                // waits for the end
  void detach() { detach_ = true; }

 private:
  std::mutex lock_;
  std::condition_variable changed_;
  run_result result_;
  std::atomic<bool> detach_{false};
  std::thread thread_;
};

}  // namespace troupe::testing_cluster
