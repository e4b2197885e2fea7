#include "actors/control/client/job_event.hpp"

namespace troupe::control {

said to_message(const job_event& e) {
  auto flat = flatten(e.event);
  return {e.job, std::move(flat.kind), std::move(flat.message), flat.step, std::move(flat.values), std::move(flat.texts)};
}

std::variant<job_event, std::string> to_event(const said& m) {
  auto read = event_of(flat_event{m.kind, m.step, m.values, m.texts, m.text});
  if (auto* bad = std::get_if<std::string>(&read)) return std::move(*bad);
  return job_event{m.job, std::get<event_effect>(std::move(read))};
}

}  // namespace troupe::control
