#include "runtime/cluster/role_entries.hpp"

namespace troupe::control {

role_entry entry_of(const role_published& p) {
  const auto& t = p.status;
  const auto& k = p.task;
  return {p.job,
          index_of(p.id),
          p.name,
          t.waits_for,
          t.step,
          t.version,
          p.messages,
          t.queued,
          t.in_flight,
          t.credit,
          p.busy_seconds,
          p.age_seconds,
          {k.kind, k.serial, k.step, k.packet, k.of_packet, k.seconds, k.usual},
          t.dropped.by_reason,
          static_cast<std::uint8_t>(t.waits)};
}

role_published published_in(const role_entry& r) {
  const auto& k = r.task;
  const auto waits = r.waits < wait_kinds ? wait_kind{r.waits} : wait_kind::none;
  return {r.job,      role_id{r.id}, r.name, {r.step, r.version, r.queued, r.in_flight, r.credit, r.waits_for, waits, {r.dropped}},
          r.messages, r.busy,        r.age,  {k.kind, k.serial, k.of_packet, k.step, k.packet, k.seconds, k.usual}};
}

activity_entry entry_of(const activity& a) {
  return {a.at.count(),
          static_cast<std::uint8_t>(a.kind),
          a.what,
          a.job,
          index_of(a.role),
          index_of(a.peer),
          a.id,
          a.value,
          a.step,
          a.packet,
          a.size};
}

std::optional<activity> activity_in(const activity_entry& e, const std::vector<std::string>& task_kinds) {
  if (e.kind > static_cast<std::uint8_t>(activity::kind_of::status)) return std::nullopt;
  activity a{time_point(e.at),
             activity::kind_of{e.kind},
             e.what,
             e.job,
             role_id{e.role},
             role_id{e.peer},
             e.id,
             e.value,
             e.step,
             e.packet,
             e.size};
  const bool of_message = a.kind == activity::kind_of::received || a.kind == activity::kind_of::sent;
  if (of_message && e.what >= std::variant_size_v<troupe::message>) return std::nullopt;
  if (a.kind == activity::kind_of::task)
    a.what = troupe::task_kinds::number_of_text(e.what < task_kinds.size() ? task_kinds[e.what] : "other");
  return a;
}

}  // namespace troupe::control
