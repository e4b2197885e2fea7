// The commands of `troupe`, one function each, free of CLI11: troupe.cpp alone reads the command line. Each returns its exit code.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "apps/troupe_job.hpp"
#include "apps/troupe_output.hpp"

namespace troupe {

struct train_arguments : job_arguments {
  std::string out;         // final weights
  std::string weights;     // begin from
  std::string resume;      // continue
  std::string checkpoint;  // empty: <job>.checkpoint.safetensors
  std::string cluster;     // a cluster file: submit there
  unsigned threads = 0;
};
int run_train(const train_arguments& a, const output& out);          // troupe_train.cpp
int run_train_cluster(const train_arguments& a, const output& out);  // troupe_cluster.cpp

struct test_arguments : job_arguments {
  std::string weights;
  unsigned threads = 0;
};
int run_test(const test_arguments& a, const output& out);  // troupe_train.cpp

struct sample_arguments : job_arguments {
  std::string weights, start;
  std::int64_t length = 400;
  double temperature = 0.8;
  std::uint64_t seed = 1;
};
int run_sample(const sample_arguments& a, const output& out);  // troupe_sample.cpp

struct time_arguments : job_arguments {
  std::string weights;
  unsigned threads = 1;
  unsigned steps = 50;
};
int run_time(const time_arguments& a, const output& out);  // troupe_time.cpp

struct init_arguments : job_arguments {
  std::string out;
};
int run_init(const init_arguments& a, const output& out);  // troupe_setup.cpp

struct unroll_arguments {
  std::string file, out;
};
int run_unroll(const unroll_arguments& a, const output& out);  // troupe_setup.cpp

struct pack_arguments : job_arguments {
  std::string out;
};
int run_pack(const pack_arguments& a, const output& out);  // troupe_setup.cpp

struct check_arguments {
  std::vector<std::string> files;
  std::vector<std::string> overrides;
};
int run_check(const check_arguments& a, const output& out);  // troupe_setup.cpp

struct init_cluster_arguments {
  std::string cluster;
  bool overwrite = false;
};
int run_init_cluster(const init_cluster_arguments& a, const output& out);  // troupe_setup.cpp

struct plan_arguments : job_arguments {
  std::string cluster;
  bool suggest = false;                 // where layers had better lie
  double gigabits = 10, teraflops = 1;  // of a node's link, of a node
};
int run_plan(const plan_arguments& a, const output& out);  // troupe_plan.cpp
int run_suggest(const plan_arguments& a, const prepared_job& j, std::vector<node_spec> nodes,
                const output& out);  // troupe_suggest.cpp

struct sim_arguments : job_arguments {
  std::string cluster;  // a cluster file: its nodes, and the job as it stands
  std::string network;  // a file with [network] and [compute]
  std::string faults;   // a file with [[fault]]
  std::string trace;    // where to write a trace for Perfetto
  std::string maths;    // "real" or "none"; empty: as the scenario says, else real
  unsigned nodes = 0;   // workers, one a node; 0: as the scenario says
  std::int64_t seed = -1, buckets = -1, steps = 0;
};
int run_sim(const sim_arguments& a, const output& out);  // troupe_sim.cpp

struct list_arguments {
  std::string name;  // empty: all
  std::vector<std::string> plugins;
};
int run_layers(const list_arguments& a, const output& out);  // troupe_lists.cpp
int run_modes(const list_arguments& a, const output& out);   // troupe_lists.cpp

}  // namespace troupe
