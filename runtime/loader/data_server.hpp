// The data server of one job: reads the packets that loaders request, in the order of the requests
// and up to `readers` (the plan's slots of this role) at a time, and sends each as soon as it is
// read. For the sampler `seeded`, it answers immediately with the step's seed.
//
// Messages in:  want_examples (loaders)
// Messages out: examples or examples_seed, with step, packet, phase and version of the request
// Bytes:        per packet one request without payload, and its examples (or 8 bytes)
// Invariants:
//   * an answer is a pure function of the request, and no state is kept per loader: requests may be
//     repeated, and workers may be at different steps;
//   * a request is credit for one answer; a loader has at most sub_solvers + readers open requests,
//     and duplicates are not queued, so the queue holds at most workers x (sub_solvers + readers).
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <tuple>
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
  std::function<std::shared_ptr<sampler>(std::uint32_t worker)> order;  // the sampler of that worker
};

class data_server final : public role {
 public:
  explicit data_server(data_server_config c) : config_(std::move(c)), readers_((*config_.plan)[config_.self].slots) {}
  void on(const envelope& e, time_point now, effects& out) override;
  role_status status() const override;

 private:
  // What tells two requests apart.
  using request_key = std::tuple<role_id, std::uint64_t, std::uint32_t, std::uint8_t, std::uint64_t>;
  static request_key key_of(const header& h) { return {h.src, h.step, h.packet, h.phase, h.version}; }
  void take(const header& request, effects& out);
  void read_next(effects& out);
  header answer_to(const header& request) const;
  sampler& order_of(std::uint32_t worker);

  data_server_config config_;
  std::uint32_t readers_;
  std::vector<std::shared_ptr<sampler>> orders_;  // by worker; a single entry if all are equal
  std::deque<header> queue_;
  std::map<std::uint64_t, std::shared_ptr<reading>> reading_;  // by slot
  std::set<request_key> open_;                                 // requests in queue_ and reading_
  std::uint64_t latest_ = 0;
};

}  // namespace troupe
