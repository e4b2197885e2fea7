#include "actors/shell/node_host.hpp"

#include <algorithm>
#include <map>
#include <shared_mutex>
#include <stdexcept>

#include "actors/shell/shell.hpp"
#include "ops/cpu/processor.hpp"
#include "ops/device.hpp"
#include "runtime/job/job.hpp"
#include "runtime/memory/process_memory.hpp"

namespace troupe {
namespace {

unsigned threads_of(const host_config& c) { return c.threads != 0 ? c.threads : cpu::usable_threads(); }

std::size_t record_of(const host_config& c) {
  constexpr std::size_t most = std::size_t{8} << 20;
  const auto memory = memory_of_this_process().total;  // 0: unknown
  return c.activity_record.value_or(memory > 0 ? std::min<std::size_t>(most, memory / 64) : most);
}

struct system_config : caf::actor_system_config {
  explicit system_config(const host_config& c) { compat::set_scheduler(*this, threads_of(c)); }
};

}  // namespace

struct node_host::impl {
  explicit impl(host_config& c) : config(c), system(config), monitor([this] { wake_stale(); }) {
    shared.callbacks = std::move(c.callbacks);
    shared.message_log = c.message_log;
    if (const auto bytes = record_of(c); bytes > 0) shared.activities = std::make_unique<activity_recorder>(bytes, threads_of(c));
    shared.devices = std::move(c.devices);
    if (shared.devices.empty()) shared.devices.emplace_back(make_cpu_device());
    if (!shared.devices.front()) throw std::runtime_error("node_host: no CPU device");
  }

  std::shared_ptr<hosted_job> find(std::uint32_t job_id) const {
    std::shared_lock guard(lock);
    const auto i = jobs.find(job_id);
    return i == jobs.end() ? nullptr : i->second;
  }

  std::vector<std::shared_ptr<hosted_job>> all() const {
    std::vector<std::shared_ptr<hosted_job>> v;
    std::shared_lock guard(lock);
    v.reserve(jobs.size());
    for (const auto& [id, j] : jobs) v.push_back(j);
    return v;
  }

  // On the monitor's thread: wakes roles that changed since they last published and may receive no
  // more messages.
  void wake_stale() const {
    for (const auto& j : all()) {
      if (j->ended.load(std::memory_order_relaxed)) continue;
      for (std::size_t r = 0; r < j->entries.size(); ++r) {
        if (j->entries[r] && j->entries[r]->wants_waking()) compat::post(j->handles[r], publish_now{});
      }
    }
  }

  node_shared shared;  // outlives the system
  mutable std::shared_mutex lock;
  std::map<std::uint32_t, std::shared_ptr<hosted_job>> jobs;
  system_config config;
  caf::actor_system system;
  monitor_thread monitor;  // destroyed first
};

node_host::node_host(host_config c) : impl_(std::make_unique<impl>(c)) {}

node_host::~node_host() {
  for (const auto& j : impl_->all()) end(j->id);
}

void node_host::spawn(std::uint32_t job_id, std::vector<seat> seats, std::vector<std::uint32_t> node_of, std::uint32_t me,
                      std::uint32_t plan_generation, std::shared_ptr<const prepared_job> plan) {
  auto j = std::make_shared<hosted_job>(impl_->shared, job_id, me, std::move(node_of), plan_generation);
  j->plan = std::move(plan);
  if (j->plan && !j->plan->messages_file.empty() && j->log) {
    const auto tell = [this, job_id](const std::string& why) {
      if (const auto& say = impl_->shared.callbacks.on_event) say(job_id, event_effect{0, warning_event{why}});
    };
    auto stream = std::make_unique<replay::log_stream>(tell);
    std::vector<role_id> roles;
    for (const seat& x : seats) roles.push_back(x.id);
    if (const auto opened = stream->open(j->plan->messages_file, roles); !opened) throw std::runtime_error(opened.error().text);
    j->log->also_to(std::move(stream));
  }
  for (const seat& s : seats) {
    const auto i = index_of(s.id);
    const bool here = i < j->node_of.size() && j->node_of[i] == me && s.device < impl_->shared.devices.size();
    if (!here || j->entries[i] || !s.value) {
      throw std::invalid_argument("node_host: role " + s.name + " cannot be placed in job " + std::to_string(job_id));
    }
    j->entries[i] = std::make_unique<monitor_entry>();
    j->entries[i]->name(job_id, s.id, s.name, s.kind);
    j->device_at[i] = s.device;
    j->rules_of[i] = s.maths;
    if (j->log) j->log->opened(s.id);
    j->joined(s.slots > 1 ? 1 + s.slots : 1);
  }
  if (impl_->shared.activities) {
    std::vector<std::string> names(j->node_of.size());
    for (const seat& s : seats) names[index_of(s.id)] = s.name;
    impl_->shared.activities->name(job_id, std::move(names));
  }
  std::unique_lock guard(impl_->lock);
  if (impl_->jobs.contains(job_id)) throw std::invalid_argument("node_host: job " + std::to_string(job_id) + " is already spawned");
  for (seat& s : seats) {
    const auto i = index_of(s.id);
    j->handles[i] = impl_->system.spawn<role_actor>(j, std::move(s));
  }
  impl_->jobs.emplace(job_id, std::move(j));
}

void node_host::deliver(envelope e) {
  const auto j = impl_->find(e.h.job);
  if (!j || j->ended.load(std::memory_order_relaxed)) {
    impl_->shared.unknown_job.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  const std::uint32_t to = index_of(e.h.dst);
  if (to >= j->handles.size() || !j->handles[to]) {
    impl_->shared.unknown_role.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  freeze(e);
  compat::post(j->handles[to], std::move(e));
}

void node_host::command(std::uint32_t job_id, troupe::command c) {
  envelope e;
  e.h.job = job_id;
  e.h.dst = role_id{0};
  e.body = std::move(c);
  deliver(std::move(e));
}

void node_host::end(std::uint32_t job_id) {
  const auto j = impl_->find(job_id);
  if (!j) return;
  if (!j->ended.exchange(true)) {
    for (const auto& h : j->handles) compat::ask_to_exit(h);
  }
  j->wait_until_gone();
  std::unique_lock guard(impl_->lock);
  const auto i = impl_->jobs.find(job_id);
  if (i != impl_->jobs.end() && i->second == j) impl_->jobs.erase(i);
}

std::vector<role_published> node_host::published() const {
  std::vector<role_published> v;
  const auto now = monitor_entry::clock::now();
  for (const auto& j : impl_->all()) {
    for (const auto& entry : j->entries) {
      if (entry) v.push_back(entry->get(now));
    }
  }
  return v;
}

std::shared_ptr<const job_log> node_host::log_of(std::uint32_t job_id) const {
  const auto j = impl_->find(job_id);
  return j ? j->log : nullptr;
}

host_counts node_host::counts() const {
  const node_shared& s = impl_->shared;
  return {s.unknown_job, s.unknown_role, s.old_incarnation, s.to_failed};
}

std::vector<std::shared_ptr<const prepared_job>> node_host::plans() const {
  std::vector<std::shared_ptr<const prepared_job>> all;
  for (const auto& j : impl_->all())
    if (j->plan) all.push_back(j->plan);
  return all;
}

const activity_recorder* node_host::activities() const { return impl_->shared.activities.get(); }

caf::actor_system& node_host::system() { return impl_->system; }

}  // namespace troupe
