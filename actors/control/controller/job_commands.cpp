#include "actors/control/controller/job_commands.hpp"

#include "actors/control/controller/job_journal.hpp"
#include "actors/control/controller/job_phases.hpp"
#include "actors/control/controller/plan_changes.hpp"

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

// Commands wait for the next coordinator role if the present one may have ended.
void tell_or_hold(job_call& c, const command& what) {
  if (!c.j.recovery.holds(what) && !c.j.plans.holds(what)) c.tell(what);
}

}  // namespace

expected<void> give(job_call& c, const command& what) {
  auto& j = c.j;
  if (j.run.at() == phase::queued && what.is<stop_command>()) {
    fail(c, c.self(), "removed from the queue before it started");
    return {};
  }
  if (j.run.over()) return unexpected(error(j.text() + " is over"));
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
  tell_or_hold(c, what);
  return {};
}

expected<void> kill(job_call& c, const std::string& by) {
  auto& j = c.j;
  if (j.run.over()) return unexpected(error(j.text() + " is over"));
  if (j.log.ended()) return unexpected(error(j.text() + " is ending already"));
  if (j.run.submitted()) return unexpected(error(j.text() + " is still being checked"));
  fail(c, c.self(), "killed by " + by);
  return {};
}

void preempt(job_call& c, const std::string& why) {
  c.j.run.preempt(why);
  tell_or_hold(c, {stop_command{}});
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
