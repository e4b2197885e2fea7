// Every registry a job may name, in one object that main builds and passes on. Plugins add rows to
// the same tables.
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
  condition_registry conditions;  // when a worker exchanges
  finish_registry finishes;       // when a job ends
  stage_registry stages;          // actor-based layers: layer types whose stage has a will of its own
};

tables stock_tables();

}  // namespace troupe
