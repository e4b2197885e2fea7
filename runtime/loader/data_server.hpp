// The data server of one job: reads the packets that loaders ask for, in the order of asking and up
// to `readers` (the plan's slots of this role) at a time, and answers each as soon as it is read;
// or, for the sampler `seeded`, answers at once with the step's number.
//
// Messages in:  want_examples (loaders), start (host, to one that was restarted)
// Messages out: examples or examples_seed, with step, packet, phase and version of the request;
//               start (loaders: ask again)
// Bytes:        per packet one request without payload, and its examples (or 8 bytes)
// Invariants: an answer is a pure function of the request, and nothing is remembered of a loader,
// so that requests may be repeated, loaders restarted, and workers run at steps of their own. A
// request is credit for one answer: a loader has at most sub_solvers + readers of them open, and no
// request is twice in the queue, so the queue holds at most workers x as many.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "runtime/loader/reading.hpp"
#include "runtime/plan/plan.hpp"

namespace troupe {

struct data_server_config {
  std::uint32_t job = 0;
  role_id self = no_role;
  std::shared_ptr<const job_plan> plan;
  reading_config read;
  delivery how = delivery::server;                                      // server or seeds
  std::function<std::shared_ptr<sampler>(std::uint32_t worker)> order;  // a sampler as that worker has it
};

class data_server final : public role {
 public:
  explicit data_server(data_server_config c) : config_(std::move(c)), readers_((*config_.plan)[config_.self].slots) {}
  void on(const envelope& e, time_point now, effects& out) override;
  role_status status() const override;

 private:
  void take(const header& request, effects& out);
  void read_next(effects& out);
  header answer_to(const header& request) const;
  sampler& order_of(std::uint32_t worker);

  data_server_config config_;
  std::uint32_t readers_;
  std::vector<std::shared_ptr<sampler>> orders_;  // by worker; one for all unless they differ
  std::deque<header> queue_;
  std::map<std::uint64_t, std::shared_ptr<reading>> reading_;  // by slot
  std::uint64_t latest_ = 0;
};

}  // namespace troupe
