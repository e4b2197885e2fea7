// Clusters of real daemons for the tests: a folder with a cluster file and certificates, processes
// with pipes, and lines waited for with deadlines. Nothing sleeps to wait.
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

// One child process. Both of its streams are read whenever somebody waits for something.
class process {
 public:
  // `bad_disk`: it syncs no file (failing_fsync.hpp).
  process(const std::vector<std::string>& changes, const std::filesystem::path& where, bool bad_disk = false);
  ~process();  // kills what is left
  process(const process&) = delete;
  process& operator=(const process&) = delete;

  bool wait_out(const std::string& part, millis within);  // until stdout contains it
  bool wait_log(const std::string& part, millis within);  // stderr
  bool closed(millis within);                             // both streams have ended
  int wait(millis within = 60s);                          // exit code; 128 + signal; -1 when it still ran
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

// A port on the loopback that nobody else is given while this process lives; a daemon may listen
// there. Throws std::runtime_error when there is none.
std::uint16_t free_port();

// n1 (coordinator, worker, server, data), n2, n3, ... (worker, server).
class cluster_test : public testing::Test {
 protected:
  cluster_test();
  ~cluster_test() override;

  // Of the cluster file that is made then.
  bool machines_apart_ = false;  // the nodes stand for machines of their own: they share no memory
  std::vector<std::string> plugins_, data_;
  std::vector<std::string> before_;  // words before those of a daemon that is started: a program that becomes it
  void make_cluster(int nodes);
  // Nodes and roles of a file in configs/clusters, on free ports; its first node is the
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
  std::uint16_t data_port(const std::string& node) const;  // as its `ready` line says

  struct run_result {
    cluster_outcome outcome;
    std::vector<job_event> events;
    std::string text(const char* name) const;  // of the last event
    double value(const char* name) const;      // of the last event, -1 when it has none
    std::size_t count(const std::string& kind) const;
  };
  run_result run(const std::string& text, const std::vector<std::string>& set = {}, const std::string& out = {});
  static run_result run_all(const cluster_submission& s);
  run_result run_with(cluster_submission::beginning from, const std::string& file, const std::string& text,
                      const std::vector<std::string>& set);
  // The same in the background of a test.
  class background;
  std::unique_ptr<background> begin(const std::string& text, const std::vector<std::string>& set = {});
  std::unique_ptr<background> begin_with(cluster_submission::beginning from, const std::string& file, const std::string& text,
                                         const std::vector<std::string>& set);

  repl_reply ask(const std::string& node, const std::string& line, bool json = false) {
    return ask_at(address_of(node), line, json);
  }
  static repl_reply ask_at(const cluster_address& where, const std::string& line, bool json = false);

  std::chrono::milliseconds wait_for_daemon_{30000};  // of jobs that are followed
  std::filesystem::path folder_;
  std::vector<std::string> names_;
  std::map<std::string, std::uint16_t> ports_;
  std::map<std::string, std::unique_ptr<process>> daemons_;
  std::map<std::string, int> starts_;
};

// A job that trains in a moment; with `steps=0` in the overrides it would not end, see `endless`.
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
  bool wait_event(const std::string& kind, millis within, std::uint64_t step = 0);  // one of at least that step
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
