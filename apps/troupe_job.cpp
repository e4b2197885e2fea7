#include "apps/troupe_job.hpp"
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
std::variant<std::shared_ptr<prepared_job>, diagnostics> load_job(const job_arguments& a, const std::vector<node_spec>& nodes) {
  auto text = read_config_text(a.file);
  if (auto* bad = std::get_if<diagnostics>(&text)) return std::move(*bad);
  return prepare_text({std::move(std::get<std::string>(text)), a.file, a.overrides}, std::make_shared<const tables>(node_tables()),
                      nodes);
}

std::variant<std::shared_ptr<prepared_job>, diagnostics> load_job_to_train(const job_arguments& a) {
  auto loaded = load_job(a);
  if (const auto* j = std::get_if<std::shared_ptr<prepared_job>>(&loaded))
    if (auto bad = over_budget(**j, 0, machine_memory())) return diagnostics{std::move(*bad)};
  return loaded;
}

std::variant<std::uint64_t, record_error> begin_from_weights(prepared_job& j, const std::string& file) {
  auto read = read_safetensors(file);
  if (auto* bad = std::get_if<record_error>(&read)) return std::move(*bad);
  return begin_from_weights(j, std::get<safetensors_content>(std::move(read)), file);
}

std::variant<std::string, record_error> checkpoint_at(const std::string& path, const output& out) {
  std::error_code ec;
  if (path.empty() || !std::filesystem::is_directory(path, ec)) return path;
  const auto found = load_newest_checkpoint(path);
  for (const auto& bad : found.refused) out.remark(bad.to_string());
  if (!found.newest) return record_error{path, {}, "the folder has no readable checkpoint"};
  return found.file;
}

std::optional<record_error> resume_from(prepared_job& j, const std::string& file, const std::string& numerics,
                                        const std::vector<std::string>& overrides) {
  auto read = load_checkpoint(file);
  if (auto* bad = std::get_if<record_error>(&read)) return std::move(*bad);
  return resume_from(j, std::get<checkpoint>(std::move(read)), file, numerics, overrides);
}

std::optional<record_error> save_weights(const prepared_job& j, const named_tensors& named, std::uint64_t step,
                                         const std::string& file) {
  return write_safetensors(file, named, weights_metadata(j, step));
}

std::optional<record_error> save_checkpoint_file(const prepared_job& j, const store_effect& s, const std::string& numerics,
                                                 const std::string& file) {
  return write_checkpoint(file, checkpoint_of(j, s, numerics));
}

std::string why_unwritable(const std::string& file) {
  const auto place = place_to_write(file);
  if (!place.wrong.empty()) return place.wrong;
  const auto folder = std::filesystem::absolute(place.path).parent_path();
  std::error_code ec;
  if (!std::filesystem::is_directory(folder, ec)) return "there is no folder " + folder.string();
  if (access(folder.c_str(), W_OK) != 0) return "cannot write to " + folder.string();
  return {};
}

int wrong_file(const output& out, const record_error& e) {
  return out.wrong(e.file, e.tensor.empty() ? e.message : "tensor '" + e.tensor + "': " + e.message);
}

}  // namespace troupe
