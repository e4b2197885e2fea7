#include "runtime/node/executor/job_executor.hpp"

#include <algorithm>

#include "ops/device.hpp"
#include "runtime/base/exception_text.hpp"
#include "runtime/cluster/admission.hpp"
#include "runtime/job/copy.hpp"
#include "runtime/node/executor/job_folders.hpp"
#include "runtime/node/machine_memory.hpp"
#include "runtime/node/runs/run_recorder.hpp"
#include "runtime/record/job_owner.hpp"
#include "runtime/record/sha256.hpp"

namespace troupe::control {
namespace {

namespace fs = std::filesystem;

constexpr const char* unreadable_job = "unreadable job";
constexpr const char* different_plan =
    "makes a different plan of this job: its cluster file, data or build differ from the coordinator's";

amendments changes_of(const revise& r) {
  amendments a;
  for (const auto& p : r.layers) a.layers.push_back({p.layer, p.place, p.whole});
  a.without = {r.without.begin(), r.without.end()};
  a.packets = r.packets;
  a.mode = r.mode;
  a.mode_options = r.mode_options;
  return a;
}

}  // namespace

// Reserves the memory of this machine's part of the job. Error: the machine has too little. New
// roles reuse memory in the devices' pools, which belongs to an earlier plan or job.
expected<void> job_executor::reserve_memory(const prepared_job& j) {
  if (!at_.reserves_memory) return {};
  const auto held = at_.dev ? at_.dev->pool().bytes_held : 0;
  if (at_.memory) at_.memory->holds(memory_book::part::job, held);
  const auto budget = at_.memory ? at_.memory->open_to(memory_book::part::job) : machine_memory(held);
  for (std::uint32_t n = 0; n < j.plan.nodes.size(); ++n) {
    if (j.plan.nodes[n].name != at_.jobs.self) continue;
    if (const auto ok = check_memory(j, n, budget); !ok) return unexpected(ok.error().to_string());
    promise(std::max(job_ ? promised_ : 0, static_cast<std::uint64_t>(bytes_on(j, n))));
  }
  return {};
}

void job_executor::promise(std::uint64_t bytes) {
  promised_ = bytes;
  if (at_.memory) at_.memory->promise(memory_book::part::job, bytes);
}

expected<void> job_executor::make(const prepare& what) {
  const auto plan = plans_->first(what.job, what.what);
  if (!plan) return unexpected(first_of(plan.error(), unreadable_job));
  if (plan->hash != what.plan_hash) return unexpected(different_plan);
  if (auto ok = reserve_memory(*plan->job); !ok) return ok;
  auto begun = continued(plan->job, what);
  if (!begun) return unexpected(std::move(begun).error());
  auto j = *std::move(begun);
  original_ = plan->job;
  origin_ = origin_of(what);
  if (auto ok = record(j); !ok) return ok;
  if (auto ok = spawn(j, 0); !ok) return ok;
  if (at_.runs) at_.runs->begin(number_of(what.job), what.owner, j, at_.jobs.numerics);
  return {};
}

expected<void> job_executor::spawn(const std::shared_ptr<const prepared_job>& j, std::uint32_t plan_generation) {
  std::vector<std::string> names;
  std::uint32_t me = static_cast<std::uint32_t>(j->plan.nodes.size());
  for (const auto& n : j->plan.nodes) {
    if (n.name == at_.jobs.self) me = static_cast<std::uint32_t>(names.size());
    names.push_back(n.name);
  }
  std::vector<std::uint32_t> node_of;
  for (const auto& r : j->plan.roles) node_of.push_back(r.node);
  at_.route.open(j->id, std::move(names), std::move(node_of));
  try {
    at_.host.spawn(j->id, j, me, plan_generation);
  } catch (...) {
    at_.route.close(j->id);
    return unexpected(current_exception_text());
  }
  job_ = j;
  return {};
}

job_origin job_executor::origin_of(const prepare& what) const {
  job_origin o;
  o.home = at_.jobs.state / "post-mortem";
  o.what = {what.what.text, what.what.file, what.what.overrides};
  o.node = at_.jobs.self;
  o.owner = what.owner;
  const auto given = uploads_.find(what.job);
  if (!what.continued) return o;
  if (given == uploads_.end()) {  // the file is on another node
    o.begins.kind = plan_beginning::with::checkpoint;
    o.begins.step = what.from;
    return o;
  }
  const auto kind =
      given->second.what.kind == given_file::weights ? plan_beginning::with::weights : plan_beginning::with::checkpoint;
  // Commands after the file was written are not in it.
  if (given->second.since && !given->second.since->settings.empty())
    o.begins.kind = plan_beginning::with::handover;
  else
    o.begins = {kind, given_path(at_.jobs, what.job).string(), {}, what.from};
  o.own_file = true;
  return o;
}

// Records the plan that begins, which origin_ describes, if the job wants it. `j`: becomes the one
// whose roles are recorded.
expected<void> job_executor::record(std::shared_ptr<const prepared_job>& j) const {
  if (!j->spec.record || at_.jobs.state.empty()) return {};
  auto from = origin_;
  if (original_) from.nodes = original_->nodes;
  from.recordings = folder_of(*j) / "recording";
  if (const auto claimed = claim_folder(folder_of(*j), from.owner); !claimed)
    return unexpected("cannot record: " + claimed.error().to_string());
  auto own = copy_of(*j);
  if (const auto ok = begin_recording(*own, from, at_.jobs.numerics); !ok)
    return unexpected("cannot record: " + ok.error().to_string());
  j = std::move(own);
  return {};
}

// Called while the roles of the job's plan still exist. `swaps`: those of the next plan replace
// them.
void job_executor::roles_end(std::uint32_t job, bool swaps) const {
  if (!at_.failures || !job_ || job_->id != job) return;
  auto from = origin_;
  if (original_) from.nodes = original_->nodes;
  at_.failures->roles_end(job_, std::move(from), swaps);
}

expected<std::string> job_executor::end(const end_roles& what) {
  const auto job = what.job;
  if (!what.why.error.empty()) roles_end(job, false);
  at_.route.close(job);
  at_.host.end(job);
  promise(0);
  if (job_ && job_->id == job) job_.reset();
  if (original_ && original_->id == job) original_.reset();
  if (next_ && next_->id == job) next_.reset();
  handed_.reset();
  began_.reset();
  auto folder = at_.failures ? at_.failures->job_ended(what.why) : std::string();
  at_.release_memory();
  return folder;
}

void job_executor::drop_beginning_of(std::uint32_t job) {
  if (job_ && job_->id == job) began_.reset();
}

// --- the next plan of a running job

expected<plan_found> job_executor::amend(const check_move& what) {
  const bool hosted = job_ && job_->id == what.job;
  if (what.back && !hosted)
    if (auto ok = read_original(what.job, what.what); !ok) return unexpected(ok.error());
  if ((!hosted && !what.back) || !original_ || original_->id != what.job) return unexpected("the job has ended");
  auto a = amended(hosted ? *job_ : *original_, what.so_far, what.wish);
  if (!a) return unexpected(a.error());
  plan_found f;
  f.changes = *std::move(a);
  const auto again = plans_->again(original_, f.changes);
  if (!again) return unexpected(again.error().empty() ? std::string(unreadable_job) : again.error().front().message);
  const auto& j = *again->job;
  f.plan = facts_of(j);
  f.mode = mode_of(j);
  f.live = hosted && leaves_enough(what);
  if (!what.back || f.live) return f;
  const auto from = go_back(j, what);
  if (!from) return unexpected(from.error());
  f.from = *from;
  return f;
}

// Sets original_, the job as submitted.
expected<void> job_executor::read_original(std::uint32_t job, const job_text& what) {
  if (original_ && original_->id == job) return {};
  const auto plan = plans_->first(job, what);
  if (!plan) return unexpected(first_of(plan.error(), unreadable_job));
  original_ = plan->job;
  return {};
}

expected<void> job_executor::revise(const control::revise& what) {
  const auto job = what.what.job;
  if (auto ok = read_original(job, what.what.what); !ok) return ok;
  const auto again = plans_->again(original_, changes_of(what));
  if (!again) return unexpected(first_of(again.error(), unreadable_job));
  next_.reset();
  next_generation_ = what.plan_generation;
  next_origin_ = origin_of(what.what);
  next_origin_.plan_generation = what.plan_generation;
  next_origin_.changes = changes_of(what);
  next_origin_.begins = {plan_beginning::with::handover, {}, {}, 0};
  if (again->hash != what.what.plan_hash) return unexpected(different_plan);
  if (auto ok = reserve_memory(*again->job); !ok) return ok;
  next_ = again->job;
  return {};
}

void job_executor::hand_over(std::uint32_t job, const store_effect& what) {
  if (!next_ || next_->id != job || (handed_ && handed_->plan_generation >= next_generation_))
    return;  // a later plan restarts from saved state instead
  handed_ = {next_generation_, what};
}

expected<void> job_executor::swap(const control::swap& what) {
  roles_end(what.job, true);
  at_.route.close(what.job);
  at_.host.end(what.job);
  if (!next_ || next_->id != what.job || next_generation_ != what.plan_generation) return unexpected("has not made the next plan");
  auto j = std::exchange(next_, nullptr);
  auto h = std::exchange(handed_, std::nullopt);
  began_.reset();
  if (h && h->plan_generation == what.plan_generation) {
    began_ = h->what;
    auto own = copy_of(*j);
    continue_at(*own, what.step, h->what.with, std::move(h->what.named));
    j = std::move(own);
  } else {
    j = plans_->at_step(j, what.step);
  }
  origin_ = std::move(next_origin_);
  if (const auto ok = record(j); !ok)
    at_.log("job " + std::to_string(number_of(what.job)) + " goes on unrecorded: " + ok.error().text);
  return spawn(j, what.plan_generation);
}

void job_executor::forget(std::uint32_t job, std::uint32_t plan_generation) {
  if (handed_ && handed_->plan_generation == plan_generation) handed_.reset();
  if (!next_ || next_->id != job || next_generation_ != plan_generation) return;
  next_.reset();
  if (!job_ || job_->id != job) original_.reset();
}

fs::path job_executor::folder_of(const prepared_job& j) const { return at_.jobs.state / job_folder_name(j.id, j.spec.name); }

void job_executor::remove_old_folders() const {
  const auto n = states_->remove_old(job_.get());
  if (n == 0) return;
  at_.log("removed the folders of " + std::to_string(n) + " jobs that are over; the newest " + std::to_string(keep_job_folders) +
          " stay");
}

expected<stored> job_executor::save(const write_state& what) {
  const auto& state = what.what;
  if (what.left_out) return unexpected("left out: two earlier ones are still being written");
  const auto j = job_;
  if (!j || j->id != what.job) return unexpected("the job has ended");
  const bool checkpoint = state.what == kept_kind::checkpoint;
  const auto kept =
      checkpoint ? states_->save_checkpoint(*j, origin_.owner, state) : states_->save_weights(*j, origin_.owner, state);
  stored s{what.job, state.what, kept.path, {}, {}};
  if (kept.trouble) s.error = kept.trouble->to_string();
  const auto has_values = [](const auto& named) { return named.second.backed(); };
  if (!checkpoint && std::all_of(state.named.begin(), state.named.end(), has_values)) s.sha256 = weights_sha256(state.named);
  return s;
}

void job_executor::end_run(const control::end_run& what) const {
  if (at_.runs) at_.runs->end(what.number, what.last, what.weights);
}

}  // namespace troupe::control
