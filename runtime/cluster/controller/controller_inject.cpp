// cluster_controller: injected faults (runtime/cluster/view/injection.hpp): checks the rights of
// the person that injects a fault, and sends the fault to its node.
#include "runtime/cluster/controller/cluster_controller.hpp"
#include "runtime/cluster/controller/job_events.hpp"
#include "runtime/cluster/view/injection.hpp"

namespace troupe::control {

expected<void> cluster_controller::inject(const person& who, const injection& i, const std::string& until, instant now,
                                          orders& out) {
  if (auto fine = check_injection(who, may_inject_, cluster_, i); !fine) return fine;
  if (!state_.nodes.at(i.node).up) return unexpected(error("inject: node " + i.node + " is not up"));
  const auto text = who.name + " injects at " + i.node + ": " + text_of(i) + (until.empty() ? "" : ", until " + until);
  out.push_back(log_line{text});
  with(active_job(), now, out, [&](job_call& call) {  // followers are notified before the node
    if (call.j.log.ended()) return;
    say(call, {call.j.id, {call.j.view.step, fault_injected_event{i.node, who.name, text_of(i.what), until, text}}});
  });
  out.push_back(to_peer{i.node, control::inject{static_cast<std::uint8_t>(i.what), static_cast<std::uint64_t>(i.lasts.count()),
                                                static_cast<std::uint64_t>(i.by.count()), who.name, until}});
  return {};
}

}  // namespace troupe::control
