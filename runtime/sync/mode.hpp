// The registry of synchronisation modes. A mode consists of two roles. The worker sync sums its
// worker's gradients, exchanges with the shards and hands weights to the stages. The shard sync
// owns blocks of parameters. Each mode has one file. Shared code is in worker_sync.hpp,
// shard_sync.hpp, and in clocked.hpp (workers push gradients) or local.hpp (each worker has its own
// weights and applies the rule itself).
//
// In every mode "version t" at a stage counts the worker's own steps: the worker sync hands out
// version t + 1 when step t + 1 may begin. The mode decides what the weights are at that moment.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ops/options.hpp"
#include "ops/rule.hpp"
#include "ops/schedule.hpp"
#include "ops/type_table.hpp"
#include "runtime/base/result.hpp"
#include "runtime/model/graph.hpp"
#include "runtime/plan/plan.hpp"
#include "runtime/role.hpp"
#include "runtime/spec/survivor_rule.hpp"
#include "runtime/sync/condition.hpp"

namespace troupe {

// The content of a parameter block when it passes from one mode to the next, or from a handover to
// a shard.
struct block_content {
  tensor value;               // of any type; the shard converts it to that of the parameters
  tensors rule;               // states of the update rule; empty: initial states
  std::uint64_t updates = 0;  // number of updates that these states have seen (Adam's bias correction)
};

// The configuration of a worker sync or shard sync.
// size: constants that a role gets once; each mode reads the ones that it needs
struct sync_config {
  std::uint32_t job = 0;
  role_id self = no_role;
  role_id coordinator{0};
  std::uint32_t worker = 0;  // worker sync: index of its worker
  std::shared_ptr<const model_graph> graph;
  std::shared_ptr<const job_plan> plan;
  // Dynamics: used by the shard in modes in which workers push gradients, by the worker in modes in
  // which it applies the rule itself.
  std::shared_ptr<const rule> update;
  std::shared_ptr<const schedule> rate;  // learning rate of a step, from lr; with warm-up and batch scaling
  double lr = 0.01, decay = 0, decay_l1 = 0;
  double clip_value = 0;  // see rule_step
  double clip_norm = 0;   // 0: none; only in modes with clips_by_norm (ops/clip.hpp)
  std::vector<std::pair<std::uint64_t, double>> lr_changes, decay_changes;  // (from step, value): set by a user
  std::int64_t max_skipped = 0;          // number of consecutive steps that may be skipped; 0: a non-finite gradient ends the job
  std::shared_ptr<sync_condition> when;  // worker sync: its own instance; null: the mode's default
  options mode;
  dtype type = dtype::f32;
  std::uint64_t seed = 1;
  std::uint64_t first_step = 0;
  bool outlives = false;               // shard sync: the job survives node failures: keep the versions that it may continue from
  std::uint64_t histograms_every = 0;  // shard sync, lockstep modes: see want_histograms; set by mode_host
  bool continued = false;              // shard sync: wait until the coordinator has sent every block (restore_state)
  // Shard sync: initial contents by block id, sent by the coordinator or left by the previous mode.
  // Null: the fillers initialise the blocks.
  std::shared_ptr<const std::map<std::uint32_t, block_content>> inherited;
};

// size: one entry of the table of modes; a mode sets what differs from the defaults
struct sync_mode {
  std::string name;
  std::string doc;
  option_specs specs;
  // All workers are at the same step, up to a window: steps are granted to all at once, and the
  // workers share each evaluation. Otherwise every worker is granted steps by its own progress, and
  // the tester evaluates.
  bool lockstep = false;
  // The coordinator deals packets to workers while the step runs. Otherwise each worker has a fixed
  // range.
  bool work_units = false;
  // true: the independent trainers are worker groups, so N trainers need worker_groups = N. false:
  // they are workers, however grouped.
  bool by_groups = false;
  // Features that a job may use beyond the mode's options. A job that uses another one is refused.
  bool takes_when = false;     // a sync condition (sync_config::when)
  bool clips_by_norm = false;  // sync_config::clip_norm
  bool averages = false;       // [train.average]: its shards apply every update, in the order of the steps
  bool compresses = false;     // codecs of gradients (spec/codec_spec.hpp)
  bool places = false;         // layers placed on other nodes, or split by feature (plan/partition.hpp)
  bool sends_layers = false;   // a worker sends another all parameters of a layer in one message
  bool delays = false;         // weight rules other than drain: gradients of steps ahead of the weights (plan/warm_up.hpp)
  // Its workers act when they have made all steps below a boundary; the coordinator sends them the
  // boundary (grant).
  bool rests = false;
  // The state that survives in its shards when nodes fail.
  survivor_rule left = survivor_rule::nothing;
  // An error if layers with running statistics (batch_norm) cannot be trained in this mode. Null:
  // they can.
  std::function<expected<void>(const options&, const job_plan&)> check_statistics = {};
  // Checks what option_specs cannot express. Throws option_error with the key at fault: "" for the
  // mode itself, "topology.NAME" or "exchange.NAME" for keys of other tables.
  std::function<void(const options&, const job_spec&, const job_plan&)> check = {};
  std::function<std::unique_ptr<role>(sync_config)> make_worker = {};
  std::function<std::unique_ptr<role>(sync_config)> make_shard = {};
};

class mode_registry : public type_table<sync_mode> {};

void add_stock_modes(mode_registry& r);  // runtime/sync/table.cpp

}  // namespace troupe
