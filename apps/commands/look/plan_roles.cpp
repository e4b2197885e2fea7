#include "apps/commands/look/plan.hpp"

#include <nlohmann/json.hpp>

#include "runtime/base/wording.hpp"

namespace troupe {
namespace {

std::string layers_text(const prepared_job& j, const role_plan& r) {
  std::string s;
  for (auto l : r.layers) s += (s.empty() ? "" : " ") + j.graph.layers[l].name;
  return s;
}

std::string packets_text(const prepared_job& j, const role_plan& r) {
  const auto first = std::to_string(r.packets.first), last = std::to_string(r.packets.first + r.packets.count - 1);
  auto s = r.packets.count == 1 ? "packet " + first : "packets " + first + " to " + last;
  if (j.plan.groups.size() > 1) s += ", worker group " + std::to_string(j.plan.group_index(r.worker));
  return s;
}

std::uint64_t parameters_of(const prepared_job& j, const role_plan& shard) {
  std::int64_t n = 0;
  for (const auto& b : j.plan.blocks) n += j.plan.shard_of(b, shard.group) == shard.id ? b.count : 0;
  return static_cast<std::uint64_t>(n);
}

std::string parameters_text(const prepared_job& j, const role_plan& r) {
  auto s = with_commas(parameters_of(j, r)) + " parameters";
  if (j.plan.server_groups > 1) s += ", server group " + std::to_string(r.group) + (r.group == 0 ? " (master)" : "");
  return s;
}

}  // namespace

std::string role_text(const prepared_job& j, const role_plan& r) {
  switch (r.kind) {
    case role_kind::coordinator:
    case role_kind::loader:
    case role_kind::stage: return layers_text(j, r);
    case role_kind::worker: return packets_text(j, r);
    case role_kind::shard: return parameters_text(j, r);
    case role_kind::reducer: return "sums for " + (r.above == no_role ? "the shards" : j.plan[r.above].name);
    case role_kind::tester: return "pulls weights and evaluates in parallel with training";
    case role_kind::data_server: return j.spec.data.how == delivery::seeds ? "seeds for the loaders" : "examples for the loaders";
    case role_kind::replica: return "a copy of " + j.plan[r.original].name;
  }
  return {};
}

void add_role_fields(nlohmann::ordered_json& o, const prepared_job& j, const role_plan& r) {
  switch (r.kind) {
    case role_kind::worker:
      o["packets"] = {r.packets.first, r.packets.count};
      o["group"] = j.plan.group_index(r.worker);
      return;
    case role_kind::shard:
      o["server_group"] = r.group;
      o["parameters"] = parameters_of(j, r);
      return;
    case role_kind::reducer:
      if (r.above != no_role) o["parent"] = j.plan[r.above].name;
      return;
    case role_kind::replica: o["of"] = j.plan[r.original].name; return;
    case role_kind::coordinator:
    case role_kind::loader:
    case role_kind::stage:
    case role_kind::tester:
    case role_kind::data_server: return;
  }
}

}  // namespace troupe
