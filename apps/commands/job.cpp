#include "apps/commands/job.hpp"
#include <unistd.h>

#include <filesystem>

#include "runtime/data/file_place.hpp"
#include "runtime/job/record.hpp"
#include "runtime/node/config/job_file.hpp"
#include "runtime/node/config/prepare_text.hpp"
#include "runtime/node/machine_memory.hpp"
#include "runtime/node/node_tables.hpp"
#include "runtime/record/checkpoint.hpp"

namespace troupe {
namespace {

// Why a path is of no job file, by its ending, and the command that takes it. Empty: it may be one.
std::string why_no_job(const std::string& file) {
  std::error_code ec;
  const bool folder = std::filesystem::is_directory(file, ec);
  if (!std::filesystem::exists(file, ec)) return {};
  auto ending = std::filesystem::path(file).extension().string();
  for (auto& c : ending) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  const auto data = "; `troupe new --data " + file + "` writes a job that trains on its data";
  if (folder) return "this is a folder, not a regular file" + data;
  for (const char* table : {".csv", ".tsv", ".npz"})
    if (ending == table) return "this is no job file" + data;
  if (ending == ".troupe") return "this is a net file, not a job file; `troupe predict` and `troupe serve` take it";
  if (ending == ".safetensors") return "these are weights, not a job file; name the run, or the job file with --weights " + file;
  return {};
}

}  // namespace

expected<std::shared_ptr<prepared_job>, diagnostics> load_job(const job_arguments& a, const std::vector<node_spec>& nodes) {
  if (auto why = why_no_job(a.file); !why.empty()) return unexpected(diagnostics{{{a.file}, std::move(why)}});
  auto text = read_config_text(a.file);
  if (!text) return unexpected(std::move(text).error());
  return prepare_text({std::move(*text), a.file, a.overrides, {}, a.load_plugins}, std::make_shared<const tables>(node_tables()),
                      nodes);
}

expected<std::shared_ptr<prepared_job>, diagnostics> load_job_to_train(const job_arguments& a) {
  auto loaded = load_job(a);
  if (loaded)
    if (const auto fits = check_memory(**loaded, 0, machine_memory()); !fits) return unexpected(diagnostics{fits.error()});
  return loaded;
}

expected<std::uint64_t, record_error> begin_from_weights(prepared_job& j, const std::string& file) {
  auto read = read_safetensors(file);
  if (!read) return unexpected(std::move(read).error());
  return begin_from_weights(j, *std::move(read), file);
}

expected<std::string, record_error> checkpoint_at(const std::string& path, const output& out) {
  std::error_code ec;
  if (path.empty() || !std::filesystem::is_directory(path, ec)) return path;
  const auto found = load_newest_checkpoint(path);
  for (const auto& bad : found.refused) out.remark(bad.to_string());
  if (!found.newest) return unexpected(record_error{path, {}, "the folder has no readable checkpoint"});
  return found.file;
}

expected<void, record_error> resume_from(prepared_job& j, const std::string& file, const std::string& numerics,
                                         const std::vector<std::string>& overrides) {
  auto read = load_checkpoint(file);
  if (!read) return unexpected(std::move(read).error());
  return resume_from(j, *std::move(read), file, numerics, overrides);
}

expected<void, record_error> save_weights(const prepared_job& j, const named_tensors& named, std::uint64_t step,
                                          const std::string& file) {
  return write_safetensors(file, named, weights_metadata(j, step));
}

expected<void, record_error> save_checkpoint_file(const prepared_job& j, const store_effect& s, const std::string& numerics,
                                                  const std::string& file) {
  return write_checkpoint(file, checkpoint_of(j, s, numerics));
}

expected<void> check_writable_file(const std::string& file) {
  const auto place = place_to_write(file);
  if (!place) return unexpected(place.error());
  const auto folder = std::filesystem::absolute(*place).parent_path();
  std::error_code ec;
  if (!std::filesystem::is_directory(folder, ec))
    return unexpected(error("there is no folder " + folder.string() + "; try: mkdir -p " + folder.string()));
  if (access(folder.c_str(), W_OK) != 0)
    return unexpected(error("cannot write to " + folder.string() + "; try: ls -ld " + folder.string()));
  return {};
}

int wrong_file(const output& out, const record_error& e) {
  return out.wrong(e.file, e.tensor.empty() ? e.message : "tensor '" + e.tensor + "': " + e.message);
}

}  // namespace troupe
