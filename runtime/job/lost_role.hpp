// Replaces a role that was restarted and cannot continue, because no other role has its state. It
// reports that to the coordinator, which ends the job as after a node failure. A lost_role of the
// coordinator itself ends the job.
//
// Messages in:  start; all others are dropped
// Messages out: peer_down (to the coordinator), or the event `error`
// Invariant: no message is answered, so the job never continues without the lost state.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "runtime/plan/plan.hpp"
#include "runtime/role.hpp"

namespace troupe {

class lost_role final : public role {
 public:
  // `gone`: what is lost, as the end of a sentence, e.g. "its parameters are lost".
  lost_role(std::uint32_t job, role_id self, std::shared_ptr<const job_plan> plan, std::string gone)
      : job_(job), self_(self), plan_(std::move(plan)), gone_(std::move(gone)) {}

  void on(const envelope& e, time_point, effects& out) override {
    if (!std::holds_alternative<start>(e.body)) return drop(drop_reason::outdated);  // for the role that was lost
    const auto& me = (*plan_)[self_];
    const peer_down news{plan_->nodes[me.node].name, me.name + " was restarted, and " + gone_};
    if (self_ == plan_->roles.front().id) return out.event(0, error_event{"node " + news.node + " is lost: " + news.reason});
    header h;
    h.job = job_;
    h.src = self_;
    h.dst = plan_->roles.front().id;  // the coordinator
    out.send({h, news});
  }
  role_status status() const override {
    role_status s;
    s.wait(wait_kind::answers, "the end of the job: " + gone_);
    return s;
  }

 private:
  std::uint32_t job_;
  role_id self_;
  std::shared_ptr<const job_plan> plan_;
  std::string gone_;
};

}  // namespace troupe
