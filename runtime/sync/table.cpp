#include "runtime/sync/stock.hpp"

namespace troupe {

// The stock modes: one line each. NAME_mode() is defined in NAME.cpp (eamsgd's in easgd.cpp).
// clang-format off
#define TROUPE_STOCK_MODES(MODE) \
  MODE(bsp) \
  MODE(ssp) \
  MODE(downpour) \
  MODE(hogwild) \
  MODE(easgd) \
  MODE(eamsgd) \
  MODE(group_sync) \
  MODE(sandblaster) \
  MODE(gossip)
// clang-format on

#define TROUPE_DECLARE(name) sync_mode name##_mode();
TROUPE_STOCK_MODES(TROUPE_DECLARE)
#undef TROUPE_DECLARE

void add_stock_modes(mode_registry& r) {
#define TROUPE_ADD(name) r.add(name##_mode());
  TROUPE_STOCK_MODES(TROUPE_ADD)
#undef TROUPE_ADD
}

void one_group(const job_plan& p, const char* mode) {
  if (p.groups.size() > 1)
    throw option_error("topology.worker_groups", std::string(mode) + " keeps all workers in step: worker_groups must be 1, not " +
                                                     std::to_string(p.groups.size()) +
                                                     " (for more workers raise workers_per_group)");
  if (p.server_groups > 1)
    throw option_error("topology.server_groups", std::string(mode) + " has one copy of the parameters: server_groups must be 1");
}

void one_centre(const job_plan& p, const char* mode) {
  no_tree(p, mode);
  if (p.server_groups > 1)
    throw option_error("topology.server_groups", std::string(mode) + " has one centre: server_groups must be 1");
}

void no_tree(const job_plan& p, const char* mode) {
  if (p.through_reducers())
    throw option_error("exchange.reducer",
                       std::string(mode) + " does not go through reducers; set reducer = \"server\" or \"sharded\"");
}

void no_replicas(const job_plan& p, const char* mode) {
  if (!p.replicas.empty())
    throw option_error("topology.replicas",
                       std::string("in ") + mode +
                           " the current weights are not in the shards, so replicas would not protect them: replicas must be 1");
}

}  // namespace troupe
