// The checker's actor: detached, one submission at a time. It always answers, since the cluster
// controller sends the next submission only after the answer.
#include "actors/control/executor/checker.hpp"
#include "actors/control/host/actors.hpp"
#include "runtime/base/exception_text.hpp"

namespace troupe::control {
namespace {

class checker_actor final : public compat::base_actor {
 public:
  checker_actor(caf::actor_config& c, shared& s) : compat::base_actor(c), s_(s), check_(job_place_of(s), s.dev) {
    compat::ignore_unknown(*this);
  }
  const char* name() const override { return "checker"; }
  caf::behavior make_behavior() override {
    return {[this](const checker_note& n) { take(n.what); }};
  }

 private:
  void take(const check_text& x) {
    checked c;
    try {
      c = check_.check(x);
    } catch (...) {  // out of memory
      c.messages = {"cannot read this job: " + current_exception_text()};
    }
    s_.control.post(control_note{check_done{x.job, std::move(c)}});
  }

  shared& s_;
  const checker check_;
};

}  // namespace

caf::actor spawn_checker(caf::actor_system& system, shared& s) { return system.spawn<checker_actor, caf::detached>(s); }

}  // namespace troupe::control
