#include "runtime/node/executor/job_origin.hpp"

#include <sys/stat.h>

#include <chrono>

#include "runtime/coordinator/handover.hpp"
#include "runtime/job/plan_hash.hpp"
#include "runtime/job/record.hpp"
#include "runtime/record/file_io.hpp"
#include "runtime/record/sha256.hpp"

namespace troupe {

post_mortem post_mortem_of(const prepared_job& j, const job_origin& from) {
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

expected<void, record_error> begin_recording(prepared_job& j, const job_origin& from, const std::string& numerics) {
  if (!j.spec.record || from.recordings.empty()) return {};
  auto m = post_mortem_of(j, from);
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  m.milliseconds = std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
  m.begins = {j.continued ? plan_beginning::with::recorded : plan_beginning::with::fillers, {}, {}, j.first_step};
  const auto folder = from.recordings / recording_name(from.plan_generation, j.first_step);
  std::optional<checkpoint> beginning;
  if (j.before)
    beginning = checkpoint_of(j, {store_effect::kind_of::checkpoint, j.first_step, j.before->named, j.before}, numerics);
  if (auto ok = write_recording(folder, m, j, beginning ? &*beginning : nullptr); !ok) return ok;
  j.messages_file = recorded_messages(folder).string();
  return {};
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
