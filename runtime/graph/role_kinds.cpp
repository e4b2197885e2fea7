#include "runtime/graph/role_kinds.hpp"

#include "runtime/graph/plan_draft.hpp"
#include "runtime/graph/plan_memory.hpp"
#include "runtime/graph/reducer_descriptor.hpp"
#include "runtime/graph/wording.hpp"

namespace troupe {
namespace {

using role_list = std::vector<role_id>;
using facts = std::vector<role_fact>;

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

std::string layers_text(const plan_view& v, const role_plan& r) {
  std::string s;
  for (auto l : r.layers) s += (s.empty() ? "" : " ") + v.graph.layers[l].name;
  return s;
}

std::string packets_text(const plan_view& v, const role_plan& r) {
  const auto first = std::to_string(r.packets.first), last = std::to_string(r.packets.first + r.packets.count - 1);
  auto s = r.packets.count == 1 ? "packet " + first : "packets " + first + " to " + last;
  if (v.plan.groups.size() > 1) s += ", worker group " + std::to_string(v.plan.group_index(r.worker));
  return s;
}

std::uint64_t parameters_of(const plan_view& v, const role_plan& shard) {
  std::int64_t n = 0;
  for (const auto& b : v.plan.blocks) n += v.plan.shard_of(b, shard.group) == shard.id ? b.count : 0;
  return static_cast<std::uint64_t>(n);
}

std::string parameters_text(const plan_view& v, const role_plan& r) {
  auto s = with_commas(parameters_of(v, r)) + " parameters";
  if (v.plan.server_groups > 1) s += ", server group " + std::to_string(r.group) + (r.group == 0 ? " (master)" : "");
  return s;
}

void draw_reducers(plan_draft& draft, const plan_options& options) {
  if (!options.lay_out_reducers) return;
  reducer_layout layout(draft.plan);
  options.lay_out_reducers(layout);
}

facts none(const plan_view&, const role_plan&) { return {}; }

constexpr role_traits entries[] = {
    {.kind = role_kind::coordinator,
     .name = "coordinator",
     .listed = [](const job_plan& p) { return one(p.roles.empty() ? no_role : p.roles.front().id); },
     .draw = nullptr,
     .does = {},
     .gone = "what it knew of the job is gone",
     .memory = nullptr,
     .holds = layers_text,
     .facts = none},
    {.kind = role_kind::loader,
     .name = "loader",
     .listed = [](const job_plan& p) { return with(p.loaders, p.tester_loader); },
     .draw = nullptr,
     .does = {.loads = true, .reads_examples = true, .passes_packets = true},
     .gone = nullptr,
     .memory = hold_loaded,
     .holds = layers_text,
     .facts = none},
    {.kind = role_kind::stage,
     .name = "stage",
     .listed = all_stages,
     .draw = nullptr,
     .does = {.hosts_layers = true, .passes_packets = true},
     .gone = nullptr,
     .memory = hold_versions,
     .holds = layers_text,
     .facts = none},
    {.kind = role_kind::worker,
     .name = "worker",
     .listed = [](const job_plan& p) { return p.workers; },
     .draw = nullptr,
     .does = {.adds = role_sums::of_packets, .passes_packets = true, .gives_way = true},
     .gone = nullptr,
     .memory = hold_sums,
     .holds = packets_text,
     .facts =
         [](const plan_view& v, const role_plan& r) {
           return facts{{"packets", std::pair{r.packets.first, r.packets.count}},
                        {"group", std::uint64_t{v.plan.group_index(r.worker)}}};
         }},
    {.kind = role_kind::shard,
     .name = "shard",
     .listed = [](const job_plan& p) { return p.shards; },
     .draw = nullptr,
     .does = {.owns_parameters = true, .gives_way = true},
     .gone = "its parameters are gone",
     .memory = hold_blocks,
     .holds = parameters_text,
     .facts =
         [](const plan_view& v, const role_plan& r) {
           return facts{{"server_group", std::uint64_t{r.group}}, {"parameters", parameters_of(v, r)}};
         }},
    {.kind = role_kind::reducer,
     .name = "reducer",
     .listed = [](const job_plan& p) { return p.reducers; },
     .draw = draw_reducers,
     .does = {.adds = role_sums::of_others},
     .gone = nullptr,
     .memory = hold_sums,
     .holds = [](const plan_view& v,
                 const role_plan& r) { return "sums for " + (r.above == no_role ? "the shards" : v.plan[r.above].name); },
     .facts =
         [](const plan_view& v, const role_plan& r) {
           return r.above == no_role ? facts{} : facts{{"parent", v.plan[r.above].name}};
         }},
    {.kind = role_kind::tester,
     .name = "tester",
     .listed = [](const job_plan& p) { return one(p.tester); },
     .draw =
         [](plan_draft& draft, const plan_options& options) {
           if (options.tester) add_tester(draft);
         },
     .does = {},
     .gone = nullptr,
     .memory = nullptr,
     .holds = [](const plan_view&, const role_plan&) { return std::string("pulls weights and evaluates beside training"); },
     .facts = none},
    {.kind = role_kind::data_server,
     .name = "data_server",
     .listed = [](const job_plan& p) { return one(p.data_server); },
     .draw = nullptr,
     .does = {.reads_examples = true},
     .gone = nullptr,
     .memory = hold_served,
     .holds =
         [](const plan_view& v, const role_plan&) {
           return std::string(v.job.data.how == delivery::seeds ? "seeds for the loaders" : "examples for the loaders");
         },
     .facts = none},
    {.kind = role_kind::replica,
     .name = "replica",
     .listed = [](const job_plan& p) { return p.replicas; },
     .draw = [](plan_draft& draft, const plan_options&) { add_replicas(draft); },
     .does = {},
     .gone = "its copies are gone",
     .memory = hold_copies,
     .holds = [](const plan_view& v, const role_plan& r) { return "a copy of " + v.plan[r.original].name; },
     .facts =
         [](const plan_view& v, const role_plan& r) {
           return facts{{"of", v.plan[r.original].name}};
         }},
};

constexpr bool in_order() {
  for (std::size_t i = 0; i < std::size(entries); ++i)
    if (entries[i].kind != static_cast<role_kind>(i)) return false;
  return true;
}
static_assert(in_order(), "a row stands at the place of its kind");

}  // namespace

std::span<const role_traits> role_table() { return entries; }
const role_traits& traits_of(role_kind k) { return entries[static_cast<std::size_t>(k)]; }
const char* name_of(role_kind k) { return traits_of(k).name; }

}  // namespace troupe
