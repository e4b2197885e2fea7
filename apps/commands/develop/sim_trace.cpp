#include "apps/commands/develop/sim_trace.hpp"

namespace troupe {

expected<std::unique_ptr<sim_trace>> sim_trace::open(const std::string& file, const job_plan& plan, const trace_job& job) {
  auto out = track_event_file::create(file);
  if (!out) return unexpected(std::move(out).error());
  describe(*out, job);
  return std::unique_ptr<sim_trace>(new sim_trace(*std::move(out), plan));
}

void sim_trace::add(activity a, time_point at) {
  a.at = at;
  const auto node_of = [&](role_id r) { return known(r) ? std::string_view(plan_.nodes[plan_[r].node].name) : std::string_view(); };
  const auto name_of = [&](role_id r) { return known(r) ? std::string_view(plan_[r].name) : std::string_view(); };
  lines_.add(a, {node_of(a.role), name_of(a.role), node_of(a.peer), name_of(a.peer)});
}

void sim_trace::task(role_id who, const char* kind, const std::optional<header>& packet, time_point begin, time_point end) {
  add(activity_of_task(who, kind, packet, end - begin), begin);
}

void sim_trace::crossed(const envelope& e, time_point sent, time_point arrived) {
  if (!known(e.h.src)) return;
  for (const auto end : {activity::kind_of::sent, activity::kind_of::received}) {
    auto a = activity_of_message(end, e);
    a.value = messages_;
    add(a, end == activity::kind_of::sent ? sent : arrived);
  }
  ++messages_;
}

void sim_trace::delivered(const envelope& e, const role_status& before, time_point now) {
  add(activity_of_status(e.h.dst, before), now);
  const bool here = known(e.h.src) && plan_[e.h.src].node == plan_[e.h.dst].node;
  if (here && !std::holds_alternative<finished>(e.body)) add(activity_of_message(activity::kind_of::received, e), now);
}

}  // namespace troupe
