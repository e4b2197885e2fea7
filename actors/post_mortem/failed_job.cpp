#include "actors/post_mortem/failed_job.hpp"

#include <chrono>

#include "actors/shell/job_log.hpp"
#include "actors/shell/node_host.hpp"
#include "runtime/cluster/supervision/task_watch.hpp"
#include "runtime/cluster/view/view.hpp"
#include "runtime/trace/recording.hpp"

namespace troupe {

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
  auto& m = f.mortem = post_mortem_of(*job_, from_);
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
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  f.seconds_since_1970 = std::chrono::duration_cast<std::chrono::seconds>(now).count();
  return write_post_mortem(from_.home, f);
}

}  // namespace troupe
