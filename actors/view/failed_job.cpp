#include "actors/view/failed_job.hpp"

#include <sys/stat.h>

#include <chrono>

#include "actors/shell/job_log.hpp"
#include "actors/shell/node_host.hpp"
#include "actors/supervision/task_watch.hpp"
#include "runtime/job/plan_hash.hpp"
#include "runtime/record/file_io.hpp"
#include "runtime/record/sha256.hpp"

namespace troupe {

failed_job::failed_job(const node_host& host, std::shared_ptr<const prepared_job> j, job_origin from)
    : job_(std::move(j)), from_(std::move(from)), log_(host.log_of(job_->id)) {
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
  auto& m = f.mortem;
  m.what = from_.what;
  m.what.file = std::filesystem::absolute(from_.what.file).lexically_normal().string();
  m.nodes = from_.nodes.empty() ? job_->nodes : from_.nodes;
  m.job = job_->id;
  m.plan_generation = from_.plan_generation;
  m.changes = from_.changes;
  m.chosen = choices_of(*job_);
  m.begins = from_.begins;
  if (!m.begins.file.empty() && m.begins.sha256.empty() && from_.own_file)
    m.begins = beginning_file(m.begins.kind, m.begins.file, m.begins.step).now();
  m.where = where;
  m.error = error;
  m.step = step;
  m.messages = {plan_hash(job_->plan), from_.node, log_ ? log_->parts() : std::vector<replay::role_part>()};
  for (const auto& e : said) f.events.push_back(e.what);
  f.seconds_since_1970 =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
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
