#include "runtime/plan/role_kinds.hpp"

#include "runtime/plan/plan_draft.hpp"
#include "runtime/plan/reducer_descriptor.hpp"

namespace troupe {
namespace {

using role_list = std::vector<role_id>;

role_list one(role_id r) { return r == no_role ? role_list{} : role_list{r}; }
role_list with(role_list list, role_id r) {
  if (r != no_role) list.push_back(r);
  return list;
}

role_list all_stages(const job_plan& p) {
  role_list list;
  for (const auto& of_worker : p.stages) list.insert(list.end(), of_worker.begin(), of_worker.end());
  return with(std::move(list), p.tester_stage);
}

void draw_reducers(plan_draft& draft, const plan_options& options) {
  if (!options.lay_out_reducers) return;
  reducer_layout layout(draft.plan);
  options.lay_out_reducers(layout);
  layout.finish();
}

constexpr role_traits entries[] = {
    {.kind = role_kind::coordinator,
     .name = "coordinator",
     .listed = [](const job_plan& p) { return one(p.roles.empty() ? no_role : p.roles.front().id); },
     .draw = nullptr,
     .does = {}},
    {.kind = role_kind::loader,
     .name = "loader",
     .listed = [](const job_plan& p) { return with(p.loaders, p.tester_loader); },
     .draw = nullptr,
     .does = {.loads = true, .reads_examples = true, .passes_packets = true}},
    {.kind = role_kind::stage,
     .name = "stage",
     .listed = all_stages,
     .draw = nullptr,
     .does = {.hosts_layers = true, .passes_packets = true}},
    {.kind = role_kind::worker,
     .name = "worker",
     .listed = [](const job_plan& p) { return p.workers; },
     .draw = nullptr,
     .does = {.adds = role_sums::of_packets, .passes_packets = true, .gives_way = true}},
    {.kind = role_kind::shard,
     .name = "shard",
     .listed = [](const job_plan& p) { return p.shards; },
     .draw = nullptr,
     .does = {.owns_parameters = true, .gives_way = true}},
    {.kind = role_kind::reducer,
     .name = "reducer",
     .listed = [](const job_plan& p) { return p.reducers; },
     .draw = draw_reducers,
     .does = {.adds = role_sums::of_others}},
    {.kind = role_kind::tester,
     .name = "tester",
     .listed = [](const job_plan& p) { return one(p.tester); },
     .draw =
         [](plan_draft& draft, const plan_options& options) {
           if (options.tester) add_tester(draft);
         },
     .does = {}},
    {.kind = role_kind::data_server,
     .name = "data_server",
     .listed = [](const job_plan& p) { return one(p.data_server); },
     .draw = nullptr,
     .does = {.reads_examples = true}},
    {.kind = role_kind::replica,
     .name = "replica",
     .listed = [](const job_plan& p) { return p.replicas; },
     .draw = [](plan_draft& draft, const plan_options&) { add_replicas(draft); },
     .does = {}},
};

constexpr bool in_order() {
  for (std::size_t i = 0; i < std::size(entries); ++i)
    if (entries[i].kind != static_cast<role_kind>(i)) return false;
  return true;
}
static_assert(in_order(), "descriptors are in the order of role_kind");

}  // namespace

std::span<const role_traits> role_table() { return entries; }
const role_traits& traits_of(role_kind k) { return entries[static_cast<std::size_t>(k)]; }
const char* name_of(role_kind k) { return traits_of(k).name; }

}  // namespace troupe
