#include "actors/control/executor/job_executor.hpp"

#include <algorithm>

#include "actors/control/executor/job_folders.hpp"
#include "ops/device.hpp"
#include "runtime/base/exception_text.hpp"
#include "runtime/job/record.hpp"
#include "runtime/node/machine_memory.hpp"
#include "runtime/node/runs/run_recorder.hpp"
#include "runtime/record/paced.hpp"
#include "runtime/record/sha256.hpp"

namespace troupe::control {
namespace {

namespace fs = std::filesystem;

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

// Why this machine has too little memory for its part of the job. Empty if it has enough; the part
// is then reserved. New roles reuse memory in the devices' pools, which belongs to an earlier plan
// or job.
std::string job_executor::too_much(const prepared_job& j) {
  const auto held = at_.dev ? at_.dev->pool().bytes_held : 0;
  if (at_.memory) at_.memory->holds(memory_book::part::job, held);
  const auto budget = at_.memory ? at_.memory->open_to(memory_book::part::job) : machine_memory(held);
  for (std::uint32_t n = 0; n < j.plan.nodes.size(); ++n) {
    if (j.plan.nodes[n].name != at_.jobs.self) continue;
    if (const auto bad = over_budget(j, n, budget)) return bad->to_string();
    promise(std::max(job_ ? promised_ : 0, static_cast<std::uint64_t>(bytes_on(j, n))));
  }
  return {};
}

void job_executor::promise(std::uint64_t bytes) {
  promised_ = bytes;
  if (at_.memory) at_.memory->promise(memory_book::part::job, bytes);
}

std::string job_executor::make(const prepare& what) {
  auto m = read_job(at_.jobs, what.what);
  if (const auto* bad = std::get_if<diagnostics>(&m)) return bad->empty() ? "unreadable job" : bad->front().to_string();
  const auto j = std::get<std::shared_ptr<prepared_job>>(m);
  j->id = what.job;
  if (plan_hash(j->plan) != what.plan_hash)
    return "makes a different plan of this job: its cluster file, data or build differ from the coordinator's";
  if (auto bad = too_much(*j); !bad.empty()) return bad;
  if (auto bad = continue_as(*j, what); !bad.empty()) return bad;
  if (at_.keeps_runs) prepare_for_run_folder(*j);
  original_ = j;
  origin_ = origin_of(what);
  return spawn(j, 0);
}

std::string job_executor::spawn(const std::shared_ptr<const prepared_job>& j, std::uint32_t plan_generation) {
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
    return current_exception_text();
  }
  job_ = j;
  return {};
}

job_origin job_executor::origin_of(const prepare& what) const {
  job_origin o;
  o.home = at_.jobs.state / "post-mortem";
  o.what = {what.what.text, what.what.file, what.what.overrides};
  o.node = at_.jobs.self;
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
    o.begins = {kind, given->second.path.string(), {}, what.from};
  o.own_file = true;
  return o;
}

std::optional<job_executor::running> job_executor::running_of(std::uint32_t job) const {
  if (!job_ || job_->id != job) return std::nullopt;
  running r{job_, origin_};
  if (original_) r.from.nodes = original_->nodes;
  return r;
}

void job_executor::end(std::uint32_t job) {
  at_.route.close(job);
  at_.host.end(job);
  promise(0);
  if (job_ && job_->id == job) job_.reset();
  if (original_ && original_->id == job) original_.reset();
  if (next_ && next_->id == job) next_.reset();
  handed_.reset();
  began_.reset();
}

void job_executor::drop_beginning_of(std::uint32_t job) {
  if (job_ && job_->id == job) began_.reset();
}

// --- the next plan of a running job

plan_found job_executor::amend(const check_move& what) {
  plan_found f;
  try {
    f = plan_of(what);
  } catch (...) {
    f.error = current_exception_text();
  }
  f.job = what.job;
  f.plan_generation = what.plan_generation;
  return f;
}

plan_found job_executor::plan_of(const check_move& what) {
  plan_found f;
  const bool hosted = job_ && job_->id == what.job;
  if (what.back && !hosted) f.error = read_original(what.job, what.what);
  if (!f.error.empty()) return f;
  if ((!hosted && !what.back) || !original_ || original_->id != what.job) {
    f.error = "the job has ended";
    return f;
  }
  auto a = amended(hosted ? *job_ : *original_, what.so_far, what.wish);
  if (const auto* why = std::get_if<std::string>(&a)) {
    f.error = *why;
    return f;
  }
  f.changes = std::get<amendments>(std::move(a));
  auto again = prepare_again(original_, f.changes);
  if (const auto* bad = std::get_if<diagnostics>(&again)) {
    f.error = bad->empty() ? "unreadable job" : bad->front().message;
    return f;
  }
  auto& j = *std::get<std::shared_ptr<prepared_job>>(again);
  f.plan = facts_of(j);
  f.mode = mode_of(j);
  f.live = hosted && leaves_enough(what);
  if (what.back && !f.live) f.error = go_back(j, what, f.from);
  return f;
}

// Sets original_, the job as submitted. Returns an error or an empty string.
std::string job_executor::read_original(std::uint32_t job, const job_text& what) {
  if (original_ && original_->id == job) return {};
  auto m = read_job(at_.jobs, what);
  if (const auto* bad = std::get_if<diagnostics>(&m)) return bad->empty() ? "unreadable job" : bad->front().to_string();
  auto j = std::get<std::shared_ptr<prepared_job>>(m);
  j->id = job;
  if (at_.keeps_runs) prepare_for_run_folder(*j);
  original_ = std::move(j);
  return {};
}

std::string job_executor::revise(const control::revise& what) {
  const auto job = what.what.job;
  try {
    if (auto bad = read_original(job, what.what.what); !bad.empty()) return bad;
    auto again = prepare_again(original_, changes_of(what));
    if (const auto* bad = std::get_if<diagnostics>(&again)) return bad->empty() ? "unreadable job" : bad->front().to_string();
    next_ = std::get<std::shared_ptr<prepared_job>>(again);
    next_generation_ = what.plan_generation;
    next_origin_ = origin_of(what.what);
    next_origin_.plan_generation = what.plan_generation;
    next_origin_.changes = changes_of(what);
    next_origin_.begins = {plan_beginning::with::handover, {}, {}, 0};
  } catch (...) {
    return current_exception_text();
  }
  if (plan_hash(next_->plan) == what.what.plan_hash) {
    auto bad = too_much(*next_);
    if (!bad.empty()) next_.reset();
    return bad;
  }
  next_.reset();
  return "makes a different plan of this job: its cluster file, data or build differ from the coordinator's";
}

void job_executor::hand_over(std::uint32_t job, const store_effect& what) {
  if (!next_ || next_->id != job || (handed_ && handed_->plan_generation >= next_generation_))
    return;  // a later plan restarts from saved state instead
  handed_ = {next_generation_, what};
}

std::string job_executor::swap(const control::swap& what) {
  at_.route.close(what.job);
  at_.host.end(what.job);
  if (!next_ || next_->id != what.job || next_generation_ != what.plan_generation) return "has not made the next plan";
  auto h = std::exchange(handed_, std::nullopt);
  began_.reset();
  if (h && h->plan_generation == what.plan_generation) {
    began_ = h->what;
    continue_at(*next_, what.step, h->what.with, std::move(h->what.named));
  } else
    continue_at(*next_, what.step);
  origin_ = std::move(next_origin_);
  return spawn(std::exchange(next_, nullptr), what.plan_generation);
}

void job_executor::forget(std::uint32_t job, std::uint32_t plan_generation) {
  if (handed_ && handed_->plan_generation == plan_generation) handed_.reset();
  if (!next_ || next_->id != job || next_generation_ != plan_generation) return;
  next_.reset();
  if (!job_ || job_->id != job) original_.reset();
}

fs::path job_executor::folder_of(const prepared_job& j) const { return at_.jobs.state / job_folder_name(j.id, j.spec.name); }

// A job that continues after a restart of this daemon keeps the folder of its newest checkpoint, so
// that `checkpoint.keep` counts the older ones there.
fs::path job_executor::checkpoints_of(const prepared_job& j) const {
  const auto at = at_.taken_up.find(j.id);
  if (at != at_.taken_up.end() && !at->second.kept.empty()) return fs::path(at->second.kept).parent_path();
  return checkpoint_folder(at_.jobs, j);
}

std::size_t job_executor::remove_old_folders() const {
  return remove_old_job_folders(at_.jobs.state, job_ ? checkpoints_of(*job_) : fs::path());
}

second_place& job_executor::elsewhere_of(std::uint32_t job) {
  if (elsewhere_.first != job) elsewhere_ = {job, {}};
  return elsewhere_.second;
}

kept_file job_executor::save_checkpoint_in(const fs::path& folder, const prepared_job& j, const store_effect& what) {
  const auto c = checkpoint_of(j, what, at_.jobs.numerics);
  if (auto bad = save_checkpoint(folder.string(), c, static_cast<std::size_t>(j.spec.checkpoint.keep), at_.before))
    return write_elsewhere(elsewhere_of(j.id), std::move(*bad), safe_job_name(j.spec.name) + ".checkpoint.safetensors",
                           [&](const std::string& path) { return write_checkpoint(path, c, at_.before); });
  const auto files = checkpoint_files(folder.string());
  return {files.empty() ? std::string() : files.front(), {}};
}

kept_file job_executor::save_weights_in(const fs::path& folder, const prepared_job& j, const store_effect& what) {
  return write_or_elsewhere(elsewhere_of(j.id), (folder / "weights.safetensors").string(),
                            [&](const std::string& path) -> std::optional<record_error> {
                              std::error_code ec;
                              const auto parent = fs::path(path).parent_path();
                              fs::create_directories(parent, ec);
                              if (ec) return record_error{parent.string(), {}, "cannot create: " + ec.message()};
                              return write_safetensors(path, what.named, weights_metadata(j, what.step), at_.before);
                            });
}

stored job_executor::save(std::uint32_t job, const store_effect& what) {
  stored s{job, what.what, {}, {}, {}};
  const auto j = job_;
  if (!j || j->id != job) {
    s.error = "the job has ended";
    return s;
  }
  try {
    const auto kept = what.what == kept_kind::checkpoint ? save_checkpoint_in(checkpoints_of(*j), *j, what)
                                                         : save_weights_in(folder_of(*j), *j, what);
    s.path = kept.path;
    if (kept.trouble) s.error = kept.trouble->to_string();
    if (what.what != kept_kind::checkpoint) s.sha256 = weights_sha256(what.named);
  } catch (...) {
    s.error = current_exception_text();
  }
  return s;
}

}  // namespace troupe::control
