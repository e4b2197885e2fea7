#include "runtime/cluster/job_event.hpp"

namespace troupe::control {

said to_message(const job_event& e) {
  auto flat = flatten(e.event);
  return {e.job, std::move(flat.kind), std::move(flat.message), flat.step, std::move(flat.values), std::move(flat.texts)};
}

expected<job_event> to_event(const said& m) {
  auto read = event_of(flat_event{m.kind, m.step, m.values, m.texts, m.text});
  if (!read) return unexpected(std::move(read).error());
  return job_event{m.job, *std::move(read)};
}

}  // namespace troupe::control
