#include <algorithm>

#include "runtime/plan/reducer_descriptor.hpp"

namespace troupe {

role_id reducer_layout::add(std::uint32_t rank, bool across) {
  const auto& w = plan_[plan_.workers[rank]];
  role_plan r;
  r.id = role_id{static_cast<std::uint32_t>(plan_.roles.size())};
  r.kind = role_kind::reducer;
  r.name = w.name + "/reducer";
  r.node = w.node;
  r.worker = w.worker;
  r.across = across;
  plan_.reducers_of.resize(plan_.workers.size());
  auto& same = plan_.reducers_of[r.worker];
  if (!same.empty()) r.name += std::to_string(same.size() + 1);
  same.push_back(r.id);
  plan_.reducers.push_back(r.id);
  plan_.roles.push_back(std::move(r));
  return plan_.reducers.back();
}

void reducer_layout::push_to(std::uint32_t rank, role_id reducer) {
  plan_.push_via.resize(plan_.workers.size(), no_role);
  plan_.push_via[rank] = reducer;
}

void reducer_layout::above(role_id reducer, role_id upper) { plan_.roles[index_of(reducer)].above = upper; }

void reducer_layout::finish() {
  for (std::uint32_t w = 0; w < plan_.push_via.size(); ++w)
    if (const auto r = plan_.push_via[w]; r != no_role) plan_.roles[index_of(r)].below.push_back(plan_.workers[w]);
  for (auto r : plan_.reducers)
    if (const auto upper = plan_[r].above; upper != no_role) plan_.roles[index_of(upper)].below.push_back(r);
}

void reducer_layout::ring(const std::vector<role_id>& reducers) {
  plan_.ring = true;
  for (std::size_t rank = 0; rank < reducers.size(); ++rank) above(reducers[rank], reducers[(rank + 1) % reducers.size()]);
}

}  // namespace troupe
