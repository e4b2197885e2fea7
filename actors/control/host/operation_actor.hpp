// The actor of the job executor and that of the checker: detached, performs one operation after the
// other (controller/operation.hpp).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "actors/shell/caf_compat.hpp"
#include "runtime/cluster/controller/operation.hpp"

namespace troupe::control {

// A message to an operation_actor.
template <class Executor>
struct operation_note {
  work<Executor> what;
};

// A message to watched actors: answered by shared::answer_probe (actors.hpp).
struct probe {};

// What an operation_actor requests of its surroundings, on its own thread.
struct operation_host {
  std::function<void(delivery)> deliver;  // a result is ready
  std::function<void()> probed = [] {};   // a probe has arrived
  std::function<void()> turn = [] {};     // called before each message is handled
  std::function<void(const std::string& line)> log = [](const std::string&) {};
};

template <class Executor>
class operation_actor final : public compat::base_actor {
 public:
  // `name`: a literal.
  operation_actor(caf::actor_config& c, const char* name, std::unique_ptr<Executor> by, operation_host host)
      : compat::base_actor(c), name_(name), by_(std::move(by)), host_(std::move(host)) {
    compat::ignore_unknown(*this);
  }
  const char* name() const override { return name_; }
  caf::behavior make_behavior() override {
    return {[this](const operation_note<Executor>& n) { perform(n.what); },
            [this](const probe&) {
              host_.turn();
              host_.probed();
            }};
  }

 private:
  void perform(const work<Executor>& what) {
    host_.turn();
    try {
      if (auto result = what(*by_)) host_.deliver(std::move(result));
    } catch (...) {  // of an operation without a result
      host_.log(std::string(name_) + ": " + current_exception_text());
    }
  }

  const char* const name_;
  const std::unique_ptr<Executor> by_;
  const operation_host host_;
};

}  // namespace troupe::control

TROUPE_LOCAL_MESSAGE(troupe::control::probe)
