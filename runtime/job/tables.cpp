#include "runtime/job/tables.hpp"

namespace troupe {

tables stock_tables() {
  tables t;
  add_stock_layers(t.layers);
  add_stock_rules(t.rules);
  add_stock_schedules(t.schedules);
  add_stock_sources(t.sources);
  add_stock_samplers(t.samplers);
  add_stock_eval_samplers(t.eval_samplers);
  add_stock_modes(t.modes);
  add_stock_reducers(t.reducers);
  add_stock_conditions(t.conditions);
  add_stock_finishes(t.finishes);
  return t;
}

}  // namespace troupe
