// A plan under construction, and the steps of make_plan: each adds its part to the plan or reports
// mistakes. Internal to plan*.cpp.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "runtime/plan/plan.hpp"

namespace troupe {

// Limits of a plan. Every node builds the whole plan, and a small file can request a huge one;
// therefore sizes are checked before memory is allocated.
constexpr std::size_t max_parts = std::size_t{1} << 21;  // of layers over all workers: workers x layers
constexpr std::size_t max_roles = std::size_t{1} << 20;
constexpr std::size_t max_edges = std::size_t{1} << 21;
constexpr std::size_t max_blocks = std::size_t{1} << 20;      // of parameters
constexpr std::size_t max_role_edges = std::size_t{1} << 16;  // edges at one role: a port has 16 bits
constexpr std::uint64_t max_placing_workers = 4096;  // with placed or split layers: every worker may have an edge to every part

// Thrown when a limit is exceeded; caught by make_plan.
struct plan_overrun {
  diagnostic what;
};

// size: what the steps of planning share
struct plan_draft {
  const job_spec& job;
  const model_graph& graph;
  const std::vector<node_spec>& nodes;
  bool lays_out = false;  // the job's reducer adds roles between workers and shards
  reducer_placing placing{};
  job_plan plan{};
  diagnostics errors{};
  std::uint64_t workers = 1, shards = 1;                   // data-parallel workers; shards per server group
  std::vector<std::uint32_t> worker_nodes{}, colocated{};  // nodes that may have workers; node of each worker
  std::vector<std::vector<std::uint32_t>> groups{};        // layers of each stage
  std::vector<assignment> where{};                         // by layer
  std::vector<std::vector<role_id>> stage_of{};            // by layer and part
  std::vector<std::uint32_t> worker_devices{};             // of the data-parallel workers: indices in the lists of their nodes
  std::map<role_id, std::uint32_t> named_devices{};        // of roles for which the file names a device

  void error(source_position at, std::string text) { errors.push_back({std::move(at), std::move(text)}); }
  role_plan& add_role(role_kind kind, std::string name, std::uint32_t node, std::uint32_t worker = 0);
  // Throws plan_overrun if `count` is more than `most`: "the plan would have more than 1,048,576
  // roles (the maximum) for ..."
  void within(std::size_t count, std::size_t most, const char* things, const source_position& at) const;
};

// The position of the key that sets the number of workers.
source_position workers_at(const job_spec& job);

std::vector<std::uint32_t> nodes_with(const std::vector<node_spec>& nodes, const std::string& role);

// Checks for mistakes (plan_mistakes.cpp). check_topology also counts workers and shards.
void check_topology(plan_draft& draft);
void check_parts(const plan_draft& draft);
void check_shards(plan_draft& draft);  // every worker's node may have shards, if the reducer needs them there
void check_placed(plan_draft& draft);
void check_own_stages(plan_draft& draft, const std::set<std::string>& own);
void check_memory(plan_draft& draft);

// The number of packets that can be at a stage at once, and the delay of its weights
// (plan_slots.cpp).
bool reports(const graph_layer& l);  // a loss or a metric, which reports to the coordinator
void warm_up(plan_draft& draft);
std::uint32_t train_slots(const plan_draft& draft, const std::vector<std::uint32_t>& layers, packet_range packets);
std::uint32_t under_way(const plan_draft& draft, packet_range packets);

// Adds the roles of workers and of placed layers (plan_roles.cpp), and the roles that serve them
// (plan_servers.cpp).
void add_worker(plan_draft& draft, std::uint32_t w, std::uint32_t node);
void add_hosts(plan_draft& draft);
void add_groups(plan_draft& draft);
void add_shards(plan_draft& draft);
void add_replicas(plan_draft& draft);
// The first shard on the node, and on the device if it is not any_device; a new one if there is
// none.
role_id colocated_shard(plan_draft& draft, std::uint32_t node, std::int32_t device);
bool has_data_server(const job_spec& job);
void add_data_server(plan_draft& draft);
void add_readers(plan_draft& draft, std::uint32_t n);

// Edges (plan_edges.cpp).
void add_all_edges(plan_draft& draft);
void add_edge(plan_draft& draft, tensor_ref what, role_id from, role_id to, const graph_layer& taker, std::size_t input,
              packet_range packets, feature_range region, feature_range need, bool addend = false);

void cut_parameters(plan_draft& draft, std::int64_t max_message);  // into blocks (plan_blocks.cpp)
void add_tester(plan_draft& draft);                                // evaluation in parallel with training (plan_tester.cpp)

// Devices (plan_devices.cpp).
void assign_worker_devices(plan_draft& draft);               // needs the nodes of the workers
std::vector<double> worker_speeds(const plan_draft& draft);  // 1 where the files state none
void deal_devices(plan_draft& draft);                        // assigns roles to devices of their nodes

}  // namespace troupe
