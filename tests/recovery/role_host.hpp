// Hosts the roles of one simulated daemon, in place of node_host and router, with the same rules:
//
//   * a message from another node is accepted for a job that is open here, from a role that runs on
//     that node
//   * messages of an incarnation before the plan's are dropped; roles see incarnations relative to
//     the plan's
//   * an exception ends the role, with an `error` event that names it
//
// Tasks run at once; their end is reported after their virtual duration.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "actors/control/messages.hpp"
#include "actors/shell/job_host.hpp"
#include "actors/shell/param_store.hpp"
#include "runtime/job/job.hpp"
#include "runtime/role.hpp"
#include "tests/recovery/wires.hpp"

namespace troupe::recovery {

struct compute_times {
  range local{duration{1'000}, duration{50'000}};              // latency between roles of one node
  range task{duration{20'000}, std::chrono::milliseconds(1)};  // duration of a role's task
};

// A message that a role has handled, for the observer.
struct acted {
  const std::string& node;
  std::uint32_t job = 0, plan_generation = 0;
  const role_plan& who;
  const envelope& what;
  bool old = false;  // of an earlier plan; dropped
};

class role_host final : public job_host, public job_routes {
 public:
  struct outside {
    std::function<bool(const std::string& node, envelope e)> send;  // returns false if the node is not connected
    std::function<void(std::uint32_t job, std::uint32_t plan_generation, const event_effect&)> on_event;
    std::function<void(std::uint32_t job, std::uint32_t plan_generation, const store_effect&)> on_store;
    std::function<void(const acted&)> on_acted;  // after the effects of the message
  };
  role_host(std::string node, process_agenda& a, sim::random& r, compute_times t, device& dev, outside o)
      : node_(std::move(node)),
        agenda_(a),
        random_(r),
        times_(t),
        dev_(dev),
        outside_(std::move(o)),
        here_(std::make_shared<bool>(true)) {}

  void open(std::uint32_t job, std::vector<std::string> nodes, std::vector<std::uint32_t> node_of) override;
  void close(std::uint32_t job) override { routes_.erase(job); }
  void spawn(std::uint32_t job, const std::shared_ptr<const prepared_job>& j, std::uint32_t me,
             std::uint32_t plan_generation) override;
  void end(std::uint32_t job) override { jobs_.erase(job); }

  void receive(const std::string& peer, envelope e);
  void deliver(envelope e);
  void command(std::uint32_t job, troupe::command c);
  std::vector<control::role_entry> published() const;
  bool idle() const { return jobs_.empty() && routes_.empty(); }
  std::uint64_t old() const { return old_; }
  double slow = 1;  // factor on the duration of tasks
  bool no_fence = false;

 private:
  struct seat {
    std::unique_ptr<role> value;
    time_point last_task{};
    std::uint64_t messages = 0;
    bool failed = false, stopped = false;
  };
  struct hosted {
    std::shared_ptr<const prepared_job> job;
    std::uint32_t id = 0, me = 0, plan_generation = 0;
    std::uint64_t serial = 0;
    time_point began{};
    std::map<role_id, seat> seats;
    std::vector<std::uint32_t> floors;
    std::map<std::pair<role_id, role_id>, time_point> last;
    param_store parameters;
  };
  struct table {
    std::vector<std::string> nodes;
    std::vector<std::uint32_t> node_of;
  };
  hosted* find(std::uint32_t job, std::uint64_t serial);
  void handle(hosted& h, envelope e);
  void react(hosted& h, role_id self, envelope e);
  void perform(hosted& h, role_id self);
  void send(hosted& h, role_id self, envelope e);
  void later(hosted& h, role_id self, duration after, message body);
  void fail(hosted& h, role_id self, std::uint64_t step, const std::string& what);

  const std::string node_;
  process_agenda& agenda_;
  sim::random& random_;
  const compute_times times_;
  device& dev_;
  const outside outside_;
  const std::shared_ptr<bool> here_;  // events of a destroyed host are dropped
  std::map<std::uint32_t, std::unique_ptr<hosted>> jobs_;
  std::map<std::uint32_t, table> routes_;
  std::uint64_t serials_ = 0, old_ = 0, unheard_ = 0;
  effects wanted_;
};

}  // namespace troupe::recovery
