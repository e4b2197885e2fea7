// Spawns the actors of the job executor and of the checker.
#include "actors/control/host/actors.hpp"
#include "runtime/node/executor/checker.hpp"

namespace troupe::control {
namespace {

// Restored jobs, by the ids that the cluster controller gives them.
std::map<std::uint32_t, unfinished_job> taken_up_of(const shared& s) {
  std::map<std::uint32_t, unfinished_job> jobs;
  for (const auto& j : s.book ? s.book->found().jobs : std::vector<unfinished_job>())
    if (begins_with(j).kind != given_file::nothing) jobs[std::uint32_t{tag_of(s)} << 16 | j.number] = j;
  return jobs;
}

operation_host host_of(shared& s) {
  operation_host h;
  h.deliver = [&s](delivery d) { s.control.post(control_note{std::move(d)}); };
  h.log = [&s](const std::string& line) { s.log(line); };
  return h;
}

}  // namespace

caf::actor spawn_executor(caf::actor_system& system, shared& s) {
  auto h = host_of(s);
  h.probed = [&s] { s.answer_probe(watched_actor::job_executor); };
  h.turn = [&s] { s.executor_clock.mine(); };
  job_executor::place at{job_place_of(s), *s.host, s.route, s.dev, taken_up_of(s), s.faults.pace(), &s.memory, s.runs.get()};
  at.failures = s.failures.get();
  at.release_memory = [&s] { s.release_all_unused(); };
  at.log = h.log;
  auto by = std::make_unique<job_executor>(std::move(at));
  by->remove_old_folders();
  return system.spawn<operation_actor<job_executor>, caf::detached>("executor", std::move(by), std::move(h));
}

caf::actor spawn_checker(caf::actor_system& system, shared& s) {
  return system.spawn<operation_actor<checker>, caf::detached>("checker", std::make_unique<checker>(job_place_of(s)), host_of(s));
}

}  // namespace troupe::control
