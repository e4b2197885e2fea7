// The table of synchronisation modes. A mode is two roles: the worker half collects its worker's gradients, exchanges and hands
// weights to the stages; the shard half owns blocks of parameters. One file a mode.
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
#include "runtime/graph/graph.hpp"
#include "runtime/graph/plan.hpp"
#include "runtime/role.hpp"
#include "runtime/sync/condition.hpp"

namespace troupe {

struct worker_config {
  std::uint32_t job = 0;
  role_id self = no_role;
  std::uint32_t worker = 0;
  std::shared_ptr<const model_graph> graph;
  std::shared_ptr<const job_plan> plan;
  options mode;
  std::shared_ptr<sync_condition> when;  // this worker's own; null: the mode's habit
  dtype type = dtype::f32;
};

struct shard_config {
  std::uint32_t job = 0;
  role_id self = no_role;
  std::shared_ptr<const model_graph> graph;
  std::shared_ptr<const job_plan> plan;
  std::shared_ptr<const rule> update;
  std::shared_ptr<const schedule> rate;  // of a step, from lr; with warm-up and the batch's scale
  double lr = 0.01, decay = 0;
  double clip_value = 0;  // see rule_step
  double clip_norm = 0;   // 0: none; for the modes that clip by norm (ops/clip.hpp)
  options mode;
  dtype type = dtype::f32;
  std::uint64_t seed = 1;
  std::uint64_t first_step = 0;
  // Full parameters by graph index to begin from; an empty tensor: use the filler.
  std::shared_ptr<const std::vector<tensor>> initial;
  std::shared_ptr<const std::vector<tensors>> initial_rule;
};

struct sync_mode {
  std::string name;
  std::string doc;
  option_specs specs;
  std::function<std::unique_ptr<role>(worker_config)> make_worker;
  std::function<std::unique_ptr<role>(shard_config)> make_shard;
  // What a job may ask of it beyond its own options; a job that asks a mode for more is refused.
  bool takes_when = false;     // a sync condition (worker_config::when)
  bool clips_by_norm = false;  // shard_config::clip_norm
};

class mode_registry {
 public:
  void add(sync_mode m);
  const sync_mode* find(std::string_view name) const;
  std::vector<std::string> names() const;

 private:
  std::map<std::string, sync_mode, std::less<>> rows_;
};

void add_stock_modes(mode_registry& r);  // runtime/sync/table.cpp

}  // namespace troupe
