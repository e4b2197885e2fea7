#include "actors/view/failed_job.hpp"

#include <sys/stat.h>

#include <chrono>

#include "actors/shell/job_log.hpp"
#include "actors/shell/node_host.hpp"
#include "actors/supervision/task_watch.hpp"
#include "actors/view/view.hpp"
#include "runtime/coordinator/handover.hpp"
#include "runtime/job/plan_hash.hpp"
#include "runtime/job/record.hpp"
#include "runtime/record/file_io.hpp"
#include "runtime/record/sha256.hpp"
#include "runtime/trace/recording.hpp"

namespace troupe {
namespace {

// Of the plan that begins, or has begun. Without its messages.
post_mortem plan_of(const prepared_job& j, const job_origin& from) {
  post_mortem m;
  m.what = from.what;
  m.what.file = std::filesystem::absolute(from.what.file).lexically_normal().string();
  m.nodes = from.nodes.empty() ? j.nodes : from.nodes;
  m.job = j.id;
  m.owner = from.owner;
  m.plan_generation = from.plan_generation;
  m.changes = from.changes;
  m.chosen = choices_of(j);
  m.begins = from.begins;
  m.messages = {plan_hash(j.plan), from.node};
  return m;
}

template <class Unit>
std::int64_t since_1970() {
  return std::chrono::duration_cast<Unit>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace

expected<void, record_error> begin_recording(prepared_job& j, const job_origin& from, const std::string& numerics) {
  if (!j.spec.record || from.recordings.empty()) return {};
  auto m = plan_of(j, from);
  m.milliseconds = since_1970<std::chrono::milliseconds>();
  m.begins = {j.continued ? plan_beginning::with::recorded : plan_beginning::with::fillers, {}, {}, j.first_step};
  const auto folder =
      from.recordings / ("plan-" + std::to_string(from.plan_generation) + "-from-step-" + std::to_string(j.first_step));
  std::optional<checkpoint> beginning;
  if (j.before)
    beginning = checkpoint_of(j, {store_effect::kind_of::checkpoint, j.first_step, j.before->named, j.before}, numerics);
  if (auto ok = write_recording(folder, m, j, beginning ? &*beginning : nullptr); !ok) return ok;
  j.messages_file = recorded_messages(folder).string();
  return {};
}

failed_job::failed_job(const node_host& host, std::shared_ptr<const prepared_job> j, job_origin from)
    : job_(std::move(j)), from_(std::move(from)), log_(host.log_of(job_->id)), record_(host.activities()) {
  for (const auto& r : host.published())
    if (r.job == job_->id) roles_.push_back({r.id, {r.name, r.status, r.messages, r.busy_seconds, task_text(r.task)}});
}

expected<std::string, record_error> failed_job::write(const std::string& where, const std::string& error, std::uint64_t step,
                                                      const std::vector<repl_event>& said) const {
  post_mortem_facts f{{}, *job_, {}, {}, 0};
  for (const auto& [id, r] : roles_) {
    f.roles.push_back(r);
    if (const auto last = log_ ? log_->last_of(id) : std::nullopt) f.roles.back().status = *last;
  }
  auto& m = f.mortem = plan_of(*job_, from_);
  if (!m.begins.file.empty() && m.begins.sha256.empty() && from_.own_file)
    m.begins = beginning_file(m.begins.kind, m.begins.file, m.begins.step).now();
  m.where = where;
  m.error = error;
  m.step = step;
  if (log_) m.messages.roles = log_->parts();
  for (const auto& e : said) f.events.push_back(e.what);
  if (record_)
    f.write_trace = [this](const std::filesystem::path& file) -> expected<void> {
      if (auto ok = write_latest(file, *record_, from_.node, repl_backend::latest_span); !ok) return unexpected(ok.error());
      return {};
    };
  f.seconds_since_1970 = since_1970<std::chrono::seconds>();
  return write_post_mortem(from_.home, f);
}

beginning_file::beginning_file(plan_beginning::with kind, const std::string& file, std::uint64_t step)
    : begins_{kind, std::filesystem::absolute(file).lexically_normal().string(), {}, step}, then_(stamp()) {}

std::string beginning_file::stamp() const {
  struct stat st {};
  if (::stat(begins_.file.c_str(), &st) != 0) return {};
  return std::to_string(st.st_ino) + " " + std::to_string(st.st_size) + " " + std::to_string(st.st_mtim.tv_sec) + " " +
         std::to_string(st.st_mtim.tv_nsec);
}

plan_beginning beginning_file::now() const {
  auto b = begins_;
  if (then_.empty() || stamp() != then_) return b;
  const auto read = read_file(b.file);
  if (read) b.sha256 = sha256_hex(read->data.get(), read->bytes);
  return b;
}

}  // namespace troupe
