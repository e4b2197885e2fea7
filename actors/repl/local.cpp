// The REPL's backend for a job that runs embedded in this process.
#include <chrono>

#include "actors/repl/repl.hpp"

#include "runtime/messages/ids.hpp"

namespace troupe {
namespace {

class local_backend final : public repl_backend {
 public:
  local_backend(node_host& host, std::function<std::vector<repl_job>()> jobs, std::shared_ptr<const repl_events> events)
      : host_(host), jobs_(std::move(jobs)), events_(std::move(events)) {}

  repl_view view() const override {
    repl_view v;
    v.node = "local";
    v.up_seconds = seconds_of(std::chrono::steady_clock::now() - begun_);
    if (jobs_) v.jobs = jobs_();
    for (auto& r : host_.published()) v.roles.push_back({v.node, std::move(r)});
    v.dropped = host_.counts();
    return v;
  }
  const repl_events& events() const override { return *events_; }
  std::string tell(std::uint32_t job, const command& c) override {
    host_.command(job, c);
    return {};
  }
  std::string submit(const repl_submission&, std::uint32_t&) override {
    return "an embedded run has one job; submit to the daemon of a cluster instead";
  }

 private:
  node_host& host_;
  std::function<std::vector<repl_job>()> jobs_;
  std::shared_ptr<const repl_events> events_;
  const std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
};

}  // namespace

std::unique_ptr<repl_backend> make_local_backend(node_host& host, std::function<std::vector<repl_job>()> jobs,
                                                 std::shared_ptr<const repl_events> events) {
  return std::make_unique<local_backend>(host, std::move(jobs), std::move(events));
}

}  // namespace troupe
