// The plan: the roles of a job, the node of each role, the edges between roles, and the shard that
// owns each slice of the parameters. Pure data: every node computes the same plan from the job, the
// graph and the list of nodes. The coordinator is always role 0.
#pragma once

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/messages/ids.hpp"
#include "runtime/messages/limits.hpp"
#include "runtime/model/graph.hpp"
#include "runtime/plan/partition.hpp"
#include "runtime/plan/role_kinds.hpp"
#include "runtime/plan/warm_up.hpp"
#include "runtime/plan/wire_format.hpp"

namespace troupe {

// One tensor, or a range of its features, sent from a producer (loader or stage) to a consumer
// stage, for the packets that both have.
struct plan_edge {
  role_id from = no_role, to = no_role;
  std::uint16_t from_port = 0;  // index in the producer's out_edges
  std::uint16_t to_port = 0;    // index in the consumer's in_edges
  tensor_ref what;
  bool grad_back = false;  // in training, a `backward` is sent the other way
  bool in_train = true, in_test = true;
  packet_range packets{};    // in evaluation: those of the worker that loaded the packet
  feature_range region{};    // the features that are sent
  feature_range need{};      // the features that the consumer assembles from all its edges of this tensor
  std::uint32_t credit = 1;  // packets that may be in flight
  bool addend =
      false;  // `to` adds what it receives on all its edges of this tensor, in their order; each of them gets the gradient
  wire_format wire = wire_format::as_is;  // in both directions; between nodes only
};

// A slice of one parameter that one shard owns: elements [begin, begin + count), or, if the
// parameter is cut along axis 1, runs of `run` elements whose starts are `stride` apart
// (plan/block_copy.hpp). A shard may own several slices of one parameter: a block has at most
// job_plan::block_elements elements (or one run), so that its state fits into one message.
struct param_block {
  std::uint32_t id = 0;
  std::uint32_t param = 0;  // index in model_graph::params
  std::int64_t begin = 0, count = 0;
  role_id shard = no_role;            // in server group 0; other groups: job_plan::shard_of
  std::vector<std::uint32_t> takers;  // indices into job_plan::workers; empty: every worker of the group
  std::int64_t run = 0, stride = 0;   // 0: contiguous
  // Offset of the block in a part of the parameter whose first element is `first`. With runs, the
  // rows of that part have length `run`.
  std::int64_t within(std::int64_t first) const { return run == 0 ? begin - first : begin / stride * run; }
};

// SINGA's worker group: workers that take one step together. Groups interact only through the
// parameters on their servers.
struct worker_group {
  std::uint32_t first = 0, count = 0;  // indices of its workers
  packet_range range;                  // the group's packets of a step
  std::uint32_t server_group = 0;
};

// size: one row of the plan; fields that a kind of role does not use keep their defaults
struct role_plan {
  role_id id = no_role;
  role_kind kind = role_kind::stage;
  std::string name;                                      // "worker0/conv1", "shard1", "coordinator"
  std::uint32_t node = 0;                                // index in job_plan::nodes
  std::uint32_t device = 0;                              // index in plan_node::devices of the node; the first of equal ones
  std::uint32_t worker = 0;                              // index of the worker it belongs to (loader, stage, worker, reducer)
  std::uint32_t index = 0;                               // shard: index in its server group
  std::uint32_t group = 0;                               // shard: index of its server group
  role_id above = no_role;                               // reducer: the reducer that receives its sums; none: the shards
  std::vector<role_id> below;                            // reducer: workers and reducers whose sums it receives, in packet order
  bool across = false;                                   // reducer: adds sums in the memory of any device of its node
  role_id original = no_role;                            // replica: the shard whose blocks it copies
  bool tester = false;                                   // loader, stage: belongs to the tester, not to a worker
  std::vector<std::uint32_t> layers;                     // stage: the layers it hosts, in topological order
  std::vector<std::shared_ptr<const part_layer>> parts;  // stage: by position in `layers`; null: the whole layer
  packet_range packets;                                  // stage, worker: its packets of a step
  std::uint32_t slots = 1;        // stage: sub-solvers, one per packet that may be in flight there; loader, data server: readers
  std::uint32_t train_slots = 1;  // number of `slots` that training can use at once
  std::vector<std::uint32_t> in_edges;   // stage: indices into job_plan::edges, by to_port
  std::vector<std::uint32_t> out_edges;  // loader, stage: likewise, by from_port

  const role_traits& traits() const { return traits_of(kind); }
  const role_duties& does() const { return traits().does; }
  bool trains() const { return does().hosts_layers && !tester; }  // hosts layers for training
};

struct plan_node {
  std::string name;
  std::vector<std::string> devices;
};

// size: the plan as one value, whose hash nodes compare
struct job_plan {
  std::vector<plan_node> nodes;
  std::vector<role_plan> roles;  // by role_id
  std::vector<plan_edge> edges;
  std::vector<param_block> blocks;
  std::vector<packet_range> ranges;  // per data-parallel worker, i.e. per loader; contiguous
  // workers: first the data-parallel workers, then the workers that host placed layers, which have
  // no loader.
  std::vector<role_id> loaders, workers, shards;
  role_id data_server = no_role;             // for samplers that use one
  std::vector<std::vector<role_id>> stages;  // by worker
  bool placed = false;                       // some layers are on their own nodes instead of on the node of every worker
  // Evaluation in parallel with training: a loader, one stage with the whole model, and the role
  // that pulls weights. no_role: the job has no tester.
  role_id tester = no_role, tester_loader = no_role, tester_stage = no_role;
  std::vector<role_id> replicas;  // of shards; those of one shard in the order of its chain
  std::vector<role_id> reducers;  // roles that the job's reducer adds between workers and shards (plan/reducer_descriptor.hpp)
  std::vector<role_id> push_via;  // by worker: the reducer that receives its sums; empty, or no_role: the shards
  std::vector<std::vector<role_id>> reducers_of;  // by worker: the reducers named after it; empty: there are no reducers
  bool ring = false;  // reducers form a ring: sums of a block pass from each to the next, up to the one on the node of its shard
  std::vector<worker_group> groups;
  std::uint32_t server_groups = 1, servers_per_group = 1;
  std::uint32_t packets = 1, sub_solvers = 1;
  bool balances = false;    // fraction = "auto": workers report the times of their steps, and the coordinator proposes shares
  bool fuse_layers = true;  // stages compute layers as one if one absorbs the other (model/maths_steps.hpp)
  weight_rule rule = weight_rule::drain;
  std::vector<std::uint32_t> delay;  // by layer: steps that its weights may lag behind (warm_up.hpp); all 0 with rule drain
  std::uint32_t warm_up = 0;         // the largest delay
  // Evaluation follows sequence slots: packet p continues where packet p - packets ended, so both
  // belong to the same worker.
  bool eval_sequences = false;
  std::uint32_t rule_states = 1;                         // tensors of a parameter's size that the update rule keeps, for memory_of
  std::int64_t block_elements = std::int64_t{64} << 20;  // maximum size of a block
  std::uint32_t eval_worker(std::uint32_t packet) const {
    if (!eval_sequences) return packet % static_cast<std::uint32_t>(ranges.size());
    std::uint32_t w = 0;
    while (!ranges[w].has(packet % packets)) ++w;
    return w;
  }
  std::uint32_t delay_of(std::uint32_t layer) const { return layer < delay.size() ? delay[layer] : 0; }
  // Number of steps that may be granted beyond the last complete one.
  std::uint32_t window() const { return std::max(3u, warm_up + 2); }
  // Number of packets that one loader may have in flight at its first stage.
  std::uint32_t in_flight() const { return sub_solvers * (warm_up + 1); }

  // Routes of sums and weights: the receiver of a worker's sums of a block, the receiver of a
  // reducer's sums, and the receivers of a block's weights from its shard.
  role_id push_to(std::uint32_t worker, const param_block& b) const {
    return push_via.empty() || push_via[worker] == no_role ? shard_of(b, group_of(worker).server_group) : push_via[worker];
  }
  role_id above(role_id reducer, const param_block& b) const {
    const auto& r = (*this)[reducer];
    return r.above == no_role || (ring && (*this)[b.shard].index == r.worker) ? b.shard : r.above;
  }
  std::string place_of(const role_plan& r) const;  // "NODE", or "NODE/DEVICE" if the node has several devices
  std::vector<role_id> weights_to(const param_block& b, const worker_group& g) const;
  // The role that sends worker w's loader its examples or their seeds; no_role: the loader reads
  // them itself. `replicate` broadcasts over a binomial tree of loaders (loader/batch_tree.hpp).
  role_id examples_from(delivery how, std::uint32_t w) const {
    if (how == delivery::broadcast) return w == 0 ? no_role : loaders[w & (w - 1)];
    return how == delivery::server || how == delivery::seeds ? data_server : no_role;
  }
  bool through_reducers() const { return !reducers.empty(); }
  // The replicas of this shard, in the order in which updates reach them.
  std::vector<role_id> copies_of(role_id shard) const {
    std::vector<role_id> list;
    for (auto r : replicas)
      if ((*this)[r].original == shard) list.push_back(r);
    return list;
  }
  const std::vector<role_id>& below(role_id reducer) const { return (*this)[reducer].below; }
  std::vector<role_id> below(role_id reducer, const param_block& b) const;  // those whose sums of this block it receives
  packet_range covered(role_id reducer) const;   // packets of all workers at and below it; in a ring: all
  std::uint32_t sums_up(role_id reducer) const;  // number of sums that it sends per block and step

  // Every server group has all blocks, cut in the same way.
  role_id shard_of(const param_block& b, std::uint32_t server_group) const {
    return server_group == 0 ? b.shard : shards[server_group * servers_per_group + (*this)[b.shard].index];
  }
  std::uint32_t group_index(std::uint32_t worker) const {
    return std::min(worker / groups[0].count, static_cast<std::uint32_t>(groups.size() - 1));
  }
  const worker_group& group_of(std::uint32_t worker) const { return groups[group_index(worker)]; }
  // The worker groups that a server group serves: all of them, or one.
  std::span<const worker_group> groups_of(std::uint32_t server_group) const {
    const std::span all(groups);
    return server_groups > 1 ? all.subspan(server_group, 1) : all;
  }
  // Returns true if this worker receives block `b` (from the servers of its group).
  bool takes(std::uint32_t worker, const param_block& b) const {
    if (b.takers.empty()) return worker < ranges.size();
    return std::find(b.takers.begin(), b.takers.end(), worker) != b.takers.end();
  }
  // The first packet of the training range of the loader that `id` comes from: packets of an
  // evaluation take the same route.
  std::uint32_t way_of(msg_id id) const {
    const auto origin = index_of(origin_of(id));
    return origin < roles.size() && roles[origin].worker < ranges.size() ? ranges[roles[origin].worker].first : 0;
  }
  const packet_range& range_of(std::uint32_t worker) const { return (*this)[workers[worker]].packets; }

  const role_plan& operator[](role_id r) const {
    assert(index_of(r) < roles.size() && "ids of messages are checked before they are looked up");
    return roles[index_of(r)];
  }
};

// Where the job's reducer needs workers and shards.
struct reducer_placing {
  enum class shards : std::uint8_t {
    as_said,                 // [topology] servers_per_group, on the nodes with role "server"
    colocated_with_workers,  // one on the node of every worker, in worker order
    one_a_node               // one on each node that has workers
  };
  shards of_shards = shards::as_said;
  bool workers_in_runs =
      false;  // workers of one node are consecutive, and so are their packets; otherwise they are dealt round-robin
};

// `nodes`: as in the cluster file (one node named "local" when embedded). Workers are dealt over
// nodes with role "worker", shards over nodes with role "server"; layers are placed as the job file
// specifies (partition.hpp). Parameters that only one node needs are owned by a shard there, so
// they are never sent. `fuse = "auto"` puts consecutive layers into one stage, except layers whose
// type is in `own_stage` (actor-based layers), which always have their own stage. `tester`: adds
// the roles that evaluate in parallel with training. Blocks of more than [topology] max_block bytes
// are cut; they are smaller if value and states of the rule together would not fit into a message.
// A packet between two stages on different nodes that does not fit into a message cannot be cut and
// is an error.
struct plan_options {
  std::set<std::string> own_stage;
  bool tester = false;
  std::uint32_t readers = 1;  // packets that a loader or data server reads at once
  std::uint32_t rule_states = 1;
  std::function<void(class reducer_layout&)> lay_out_reducers = {};        // of the job's reducer; none: it adds no roles
  reducer_placing placing = {};                                            // of the job's reducer
  std::int64_t max_message = static_cast<std::int64_t>(wire_max_message);  // bytes; limit between nodes
};
expected<job_plan, diagnostics> make_plan(const job_spec& job, const model_graph& graph, const std::vector<node_spec>& nodes,
                                          const plan_options& options = {});

// Bytes sent between nodes per training step of bsp (sums pushed, weights returned, activations and
// their gradients; without headers): by link (node indices), and sent and received by node. Also
// the peak memory of each node (plan_memory.hpp).
struct plan_costs {
  std::map<std::pair<std::uint32_t, std::uint32_t>, double> links;  // only links in use
  std::map<std::string, double> bytes_per_step;                     // sent
  std::map<std::string, double> received;
  std::map<std::string, double> memory;
};
plan_costs cost_of(const job_plan& p, const model_graph& g, const job_spec& job);

}  // namespace troupe
