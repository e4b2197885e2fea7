#include "runtime/node/executor/file_states.hpp"

#include <cerrno>
#include <cstring>
#include <system_error>

#include "runtime/job/record.hpp"
#include "runtime/node/executor/job_folders.hpp"
#include "runtime/record/checkpoint_home.hpp"
#include "runtime/record/job_owner.hpp"
#include "runtime/record/paced.hpp"

namespace troupe::control {
namespace fs = std::filesystem;

// A job that continues after a restart of this daemon keeps the folder of its newest checkpoint, so
// that `checkpoint.keep` counts the older ones there.
void file_states::goes_on(std::uint32_t job, const std::string& kept) { continued_[job] = fs::path(kept).parent_path(); }

fs::path file_states::checkpoints_of(const prepared_job& j) const {
  const auto at = continued_.find(j.id);
  return at != continued_.end() ? at->second : checkpoint_folder(at_, j);
}

second_place& file_states::elsewhere_of(std::uint32_t job) {
  if (elsewhere_.first != job) elsewhere_ = {job, {}};
  return elsewhere_.second;
}

kept_file file_states::save_checkpoint(const prepared_job& j, const std::string& owner, const store_effect& what) {
  const auto folder = checkpoints_of(j);
  const auto c = checkpoint_of(j, what, at_.numerics);
  const auto name = safe_job_name(j.spec.name) + ".checkpoint.safetensors";
  auto claimed = claim_folder(folder, owner);
  auto kept = claimed ? save_checkpoint_or_elsewhere(elsewhere_of(j.id), folder.string(), name, c,
                                                     static_cast<std::size_t>(j.spec.checkpoint.keep), before_)
                      : write_elsewhere(elsewhere_of(j.id), std::move(claimed).error(), name,
                                        [&](const std::string& path) { return write_checkpoint(path, c, before_); });
  if (const auto& other = elsewhere_of(j.id); kept.trouble && !other.empty())
    if (auto owned = set_owner(other, owner); !owned) kept.trouble->message += "; " + owned.error().to_string();
  if (fs::path(kept.path).parent_path() != folder) kept.path.clear();  // a restart does not find it
  return kept;
}

kept_file file_states::save_weights(const prepared_job& j, const std::string& owner, const store_effect& what) {
  const auto folder = at_.state / job_folder_name(j.id, j.spec.name);
  return write_or_elsewhere(elsewhere_of(j.id), (folder / "weights.safetensors").string(),
                            [&](const std::string& path) -> expected<void, record_error> {
                              const auto at = fs::path(path).parent_path();
                              auto owned = at == folder ? claim_folder(at, owner) : set_owner(at, owner);
                              if (!owned) return owned;
                              return write_safetensors(path, what.named, weights_metadata(j, what.step), before_);
                            });
}

expected<std::optional<handover>, record_error> file_states::newest(const prepared_job& j) {
  auto found = load_newest_checkpoint(checkpoints_of(j).string());
  if (!found.newest) return std::nullopt;
  auto read = handover_for(j, std::move(*found.newest), found.file, at_.numerics);
  if (!read) return unexpected(std::move(read).error());
  return *std::move(read);
}

std::size_t file_states::remove_old(const prepared_job* running) {
  return remove_old_job_folders(at_.state, running ? checkpoints_of(*running) : fs::path());
}

// --- files that jobs start from, below the node's state folder. They are written piece by piece.

expected<void> file_states::keep(const keep_piece& what) {
  auto& out = uploads_[what.job];
  const auto path = given_path(at_, what.job);
  errno = 0;
  if (what.offset == 0) {
    std::error_code ec;
    fs::create_directories(path.parent_path(), ec);
    if (ec) return unexpected(error(ec.message()).in(path.parent_path().string()));
    out.open(path, std::ios::binary | std::ios::trunc);
  }
  if (out) out.write(what.bytes.data(), static_cast<std::streamsize>(what.bytes.size()));
  if (out) out.flush();
  if (!out) return unexpected(error(errno != 0 ? std::strerror(errno) : "unknown error").in(path.string()));
  return {};
}

expected<std::optional<given_file>> file_states::take_newest(const prepared_job& j, std::uint32_t job, const std::string& owner,
                                                             std::vector<std::string>& notes) {
  return control::take_newest(at_, j, job, owner, notes);
}

bool file_states::has_given(std::uint32_t job) const {
  std::error_code none;
  return fs::exists(given_path(at_, job), none);
}

void file_states::drop(std::uint32_t job) {
  uploads_.erase(job);
  std::error_code ignored;
  fs::remove(given_path(at_, job), ignored);
}

expected<void, record_error> file_states::begin(prepared_job& j, std::uint32_t job, const given_file& given,
                                                const std::vector<std::string>& overrides) {
  uploads_.erase(job);
  return begin_with_given(at_, j, job, given, overrides);
}

expected<void> file_states::check_place(const prepared_job& j) {
  if (j.spec.checkpoint.dir.empty()) return {};
  return check_home(j.spec.checkpoint.dir, j.spec.name);
}

}  // namespace troupe::control
