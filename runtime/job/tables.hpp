// All registries that a job file refers to, in one object that main() makes and passes on. Plugins
// add entries to them.
#pragma once

#include "ops/registry.hpp"
#include "ops/rule.hpp"
#include "ops/schedule.hpp"
#include "runtime/coordinator/finish.hpp"
#include "runtime/data/sampler.hpp"
#include "runtime/data/source.hpp"
#include "runtime/reduce/stock.hpp"
#include "runtime/stage/stage_factory.hpp"
#include "runtime/sync/condition.hpp"
#include "runtime/sync/mode.hpp"

namespace troupe {

struct tables {
  layer_registry layers;
  rule_registry rules;
  schedule_registry schedules;
  source_registry sources;
  sampler_registry samplers;
  eval_sampler_registry eval_samplers;
  mode_registry modes;
  reducer_registry reducers;
  condition_registry conditions;  // sync conditions: decide when a worker exchanges
  finish_registry finishes;       // finish conditions: decide when a job ends
  stage_registry stages;          // layer types with their own stage class (actor-based layers)
};

tables stock_tables();

}  // namespace troupe
