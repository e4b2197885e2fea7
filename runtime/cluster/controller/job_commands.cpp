#include "runtime/cluster/controller/job_commands.hpp"

#include "runtime/cluster/controller/job_journal.hpp"
#include "runtime/cluster/controller/job_phases.hpp"
#include "runtime/cluster/controller/plan_changes.hpp"

namespace troupe::control {
namespace {

using phase = job_run::phase;

// Why a job that is not over takes no commands.
std::string why_not(phase at) {
  switch (at) {
    case phase::checking:
    case phase::receiving: return " is still being checked";
    case phase::queued: return " has not started yet: it is queued";
    case phase::gathering: return " has not started yet: it waits for its nodes";
    case phase::preparing: return " has not started yet: its nodes prepare it";
    case phase::ending: return " is ending";
    case phase::running:
    case phase::over: break;
  }
  return {};
}

}  // namespace

void tell_waiting(job_call& c) {
  auto& j = c.j;
  if (!j.run.runs() || j.log.ended() || j.recovery.rejoins() || j.plans.holds_commands()) return;
  for (auto& what : j.commands.take_waiting()) {
    j.recovery.told(what);
    c.tell(std::move(what));
  }
}

expected<void> give(job_call& c, const command& what) {
  auto& j = c.j;
  if (j.run.at() == phase::queued && what.is<stop_command>()) {
    j.commands.add_for_host(what);
    fail(c, c.self(), "removed from the queue before it started");
    return {};
  }
  if (j.run.over()) return unexpected(error(j.text() + " is over"));
  if (j.log.ended()) return unexpected(error(j.text() + " is ending"));
  if (!j.run.runs()) return unexpected(error(j.text() + why_not(j.run.at())));
  if (amends(what)) {
    wish(c, what);
    return {};
  }
  if (what.is<stop_command>()) j.run.stop();
  if (what.is<pause_command>() || what.is<resume_command>()) {
    j.recovery.pause(what.is<pause_command>());
    note_settings(c);
  }
  j.commands.add(what);
  tell_waiting(c);
  return {};
}

expected<void> kill(job_call& c, const command& what, const std::string& by) {
  auto& j = c.j;
  if (j.run.over()) return unexpected(error(j.text() + " is over"));
  if (j.log.ended()) return unexpected(error(j.text() + " is ending already"));
  if (j.run.submitted()) return unexpected(error(j.text() + " is still being checked"));
  j.commands.add_for_host(what);
  fail(c, c.self(), "killed by " + by);
  return {};
}

void preempt(job_call& c, const std::string& why) {
  c.j.run.preempt(why);
  c.j.commands.add({stop_command{}});
  tell_waiting(c);
}

void drain(job_call& c) {
  auto& j = c.j;
  const auto why = c.self() + " shuts down; the job continues when it runs again";
  if (j.run.runs()) return preempt(c, why);
  if (j.run.at() != phase::gathering && j.run.at() != phase::preparing) return;
  j.log.end_with({j.id, {j.view.step, preempted_event{{}, {}, {}, why}}});
  begin_ending(c);
}

}  // namespace troupe::control
