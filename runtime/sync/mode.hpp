// The table of synchronisation modes. A mode is two roles: the worker half collects its worker's
// gradients, exchanges and hands weights to the stages; the shard half owns blocks of parameters.
// One file a mode. What halves share is in worker_sync.hpp, shard_sync.hpp, and in clocked.hpp
// (gradients travel) or local.hpp (every worker has its own weights and steps by itself).
//
// To every mode, "version t" at a stage is the worker's own step: the worker half hands out version
// t + 1 when it is content that step t + 1 may begin. What the mode lets the weights be at that
// moment is the mode.
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
#include "runtime/model/graph.hpp"
#include "runtime/plan/plan.hpp"
#include "runtime/role.hpp"
#include "runtime/spec/survivor_rule.hpp"
#include "runtime/sync/condition.hpp"

namespace troupe {

// A parameter block as it passes from one mode to the next, or from a handover to a shard.
struct block_content {
  tensor value;               // of any type: the shard makes it the parameters'
  tensors rule;               // states of the update rule; none: it begins at rest
  std::uint64_t updates = 0;  // steps these states have seen (Adam's bias correction)
};

// What either half is made from.
struct sync_config {
  std::uint32_t job = 0;
  role_id self = no_role;
  role_id coordinator{0};
  std::uint32_t worker = 0;  // worker half: which
  std::shared_ptr<const model_graph> graph;
  std::shared_ptr<const job_plan> plan;
  // Dynamics: at the shard in modes where gradients travel, at the workers where they step by
  // themselves.
  std::shared_ptr<const rule> update;
  std::shared_ptr<const schedule> rate;  // of a step, from lr; with warm-up and the batch's scale
  double lr = 0.01, decay = 0;
  double clip_value = 0;  // see rule_step
  double clip_norm = 0;   // 0: none; for the modes that clip by norm (ops/clip.hpp)
  std::vector<std::pair<std::uint64_t, double>> lr_changes, decay_changes;  // (from step, value): what a person has set
  std::int64_t max_skipped =
      0;  // steps in a row that may be left out; 0: a gradient that is not finite is looked for, and none is left out
  std::shared_ptr<sync_condition> when;  // worker half: this worker's own; null: the mode's habit
  options mode;
  dtype type = dtype::f32;
  std::uint64_t seed = 1;
  std::uint64_t first_step = 0;
  std::uint32_t incarnation = 0;    // > 0: this node has been restarted
  bool retains_for_replay = false;  // roles may be restarted one by one: keep what they will ask for
  bool outlives = false;            // shard: the job outlives nodes, so what it may go on from is kept
  bool continued = false;           // shard: begin when the coordinator has sent every block (restore_state), with these
  // Shard: what its blocks begin with, by block id: what the coordinator has sent, or another mode
  // left. Null: the fillers.
  std::shared_ptr<const std::map<std::uint32_t, block_content>> inherited;
};

struct sync_mode {
  std::string name;
  std::string doc;
  option_specs specs;
  // All workers are at the same step, up to a window: steps are granted to all at once and
  // evaluation is spread over them. Else every worker is granted steps by its own progress, and the
  // tester evaluates.
  bool lockstep = false;
  // Packets are dealt to workers while the step runs, instead of a fixed range each.
  bool work_units = false;
  // Independent trainers are worker groups (else they are workers, however grouped): whoever only
  // knows a number of workers sets worker_groups.
  bool by_groups = false;
  // What a job may ask of it beyond its own options; a job that asks a mode for more is refused.
  bool takes_when = false;     // a sync condition (sync_config::when)
  bool clips_by_norm = false;  // sync_config::clip_norm
  bool compresses = false;     // codecs of gradients (spec/codec_spec.hpp)
  bool places = false;         // layers placed apart from the workers, or split by feature (plan/partition.hpp)
  bool sends_layers = false;   // workers send each other all parameters of a layer in one message
  bool delays = false;         // weight rules other than drain: gradients of steps ahead of the weights (plan/warm_up.hpp)
  // Its workers do something when they have made all steps for now: they are told (grant) at which
  // boundary the steps end.
  bool rests = false;
  // What its shards have when nodes are lost.
  survivor_rule left = survivor_rule::nothing;
  // Why layers that keep running statistics (batch_norm) cannot be trained this way; empty, or no
  // function: they can.
  std::function<std::string(const options&, const job_plan&)> no_statistics = {};
  // What options cannot say by themselves: throws option_error naming the key ("" for the mode
  // itself, "topology." for the topology).
  std::function<void(const options&, const job_spec&, const job_plan&)> check = {};
  std::function<std::unique_ptr<role>(sync_config)> make_worker = {};
  std::function<std::unique_ptr<role>(sync_config)> make_shard = {};
};

class mode_registry : public type_table<sync_mode> {};

void add_stock_modes(mode_registry& r);  // runtime/sync/table.cpp

}  // namespace troupe
