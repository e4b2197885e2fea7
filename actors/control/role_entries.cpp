#include "actors/control/role_entries.hpp"

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
          {k.kind, k.serial, k.step, k.packet, k.of_packet, k.seconds},
          t.dropped.by_reason,
          static_cast<std::uint8_t>(t.waits)};
}

role_published published_in(const role_entry& r) {
  const auto& k = r.task;
  const auto waits = r.waits < wait_kinds ? wait_kind{r.waits} : wait_kind::none;
  return {r.job,      role_id{r.id}, r.name, {r.step, r.version, r.queued, r.in_flight, r.credit, r.waits_for, waits, {r.dropped}},
          r.messages, r.busy,        r.age,  {k.kind, k.serial, k.of_packet, k.step, k.packet, k.seconds}};
}

}  // namespace troupe::control
