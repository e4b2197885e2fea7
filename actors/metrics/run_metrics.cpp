#include "actors/metrics/run_metrics.hpp"

#include <algorithm>
#include <mutex>

#include "actors/metrics/endpoint.hpp"
#include "actors/supervision/gpu_watch.hpp"
#include "ops/cpu/block_pool.hpp"
#include "runtime/cluster/view/about.hpp"
#include "runtime/cluster/view/job_progress.hpp"
#include "runtime/node/http/access.hpp"

namespace troupe {
namespace {

constexpr const char* node_of_run = "local";

}  // namespace

struct run_metrics::impl {
  std::function<std::vector<role_published>()> roles;
  std::uint32_t number = 0;  // of the job in labels
  gpu_watch gpus;
  event_totals totals;
  mutable std::mutex lock;
  repl_job job;
  std::unique_ptr<metrics_endpoint> endpoint;  // last: its thread uses the members above

  impl(const prepared_job& j, std::function<std::vector<role_published>()> r)
      : roles(std::move(r)), number(j.id & 0xffff), gpus(gpus_in(j.nodes.front().devices)) {
    job.id = number;
    job.name = j.spec.name;
    job.state = job_state::running;
    job.step = j.first_step;
    job.last_step = j.last_step;
    job.about = std::make_shared<const repl_about>(about_job(j));
  }

  metrics_facts facts() const {
    metrics_facts f;
    f.view.node = node_of_run;
    f.view.gpus = shown(gpus.latest());
    f.coordinates = true;
    f.roles = roles ? roles() : std::vector<role_published>();
    f.totals = totals.all();
    const auto pool = cpu::block_pool::statistics_of_all();
    f.pools.push_back({"tensors", pool.bytes_held, pool.bytes_in_use, pool.peak_bytes_in_use});
    std::lock_guard guard(lock);
    f.view.jobs.push_back(job);
    return f;
  }
};

run_metrics::run_metrics(std::unique_ptr<impl> p) : impl_(std::move(p)) {}
run_metrics::~run_metrics() = default;

expected<std::unique_ptr<run_metrics>, coded_error> run_metrics::open(const std::string& where, const prepared_job& j,
                                                                      std::function<std::vector<role_published>()> roles) {
  const auto at = http::loopback_address(where, "metrics of a run are served");
  if (!at) return unexpected(at.error());
  auto p = std::make_unique<impl>(j, std::move(roles));
  auto* q = p.get();
  metrics_options o;
  o.where = *at;
  auto opened = metrics_endpoint::open(
      o, [q] { return q->facts(); }, [q] { return q->roles ? q->roles() : std::vector<role_published>(); }, {});
  if (!opened) return unexpected(opened.error());
  p->endpoint = std::move(*opened);
  return std::unique_ptr<run_metrics>(new run_metrics(std::move(p)));
}

std::string run_metrics::url() const { return impl_->endpoint->url(); }

void run_metrics::event(const event_effect& e) {
  impl_->totals.event(impl_->number, e);
  std::lock_guard guard(impl_->lock);
  auto& j = impl_->job;
  note_event(j, e);
  if (const auto* d = e.as<done_event>()) j.state = d->stopped() ? job_state::stopped : job_state::done;
  if (e.is<error_event>()) j.state = job_state::failed;
}

void run_metrics::saving() { impl_->totals.saving(impl_->number); }
void run_metrics::saved(bool good) { impl_->totals.saved(impl_->number, good); }

}  // namespace troupe
