#include "runtime/node/executor/memory_states.hpp"

#include <algorithm>

#include "runtime/cluster/job_folder_names.hpp"
#include "runtime/job/record.hpp"

namespace troupe::control {
namespace {

kept_file disk_full(const std::string& path) { return {{}, record_error{path, {}, "cannot write: No space left on device"}}; }

std::uint64_t bytes_of(const named_tensors& named) {
  std::uint64_t n = 0;
  for (const auto& [name, t] : named) n += t.bytes();
  return n;
}

}  // namespace

std::uint64_t memory_states::bytes() const {
  std::uint64_t n = 0;
  for (const auto& [name, f] : folders_) {
    n += bytes_of(f.weights);
    for (const auto& c : f.checkpoints) n += bytes_of(c.content.named);
  }
  return n;
}

void memory_states::goes_on(std::uint32_t job, const std::string& kept) { continued_[job] = kept.substr(0, kept.rfind('/')); }

std::string memory_states::folder_of(const prepared_job& j) const {
  const auto at = continued_.find(j.id);
  return at != continued_.end() ? at->second : job_folder_name(j.id, j.spec.name);
}

const memory_states::saved* memory_states::find(const std::string& name) const {
  for (const auto& [path, f] : folders_)
    for (const auto& c : f.checkpoints)
      if (c.name == name) return &c;
  return nullptr;
}

kept_file memory_states::save_checkpoint(const prepared_job& j, const std::string& owner, const store_effect& what) {
  const auto path = folder_of(j);
  if (full) return disk_full(path);
  auto& f = folders_[path];
  f.owner = owner;
  const auto number = ++saves_;
  auto name = path + "/checkpoint-" + std::to_string(number) + "-step-" + std::to_string(what.step) + ".safetensors";
  f.checkpoints.push_back({name, number, checkpoint_of(j, what, numerics_)});
  const auto keep = std::max<std::size_t>(1, static_cast<std::size_t>(j.spec.checkpoint.keep));
  if (f.checkpoints.size() > keep)
    f.checkpoints.erase(f.checkpoints.begin(), f.checkpoints.end() - static_cast<std::ptrdiff_t>(keep));
  return {std::move(name), {}};
}

kept_file memory_states::save_weights(const prepared_job& j, const std::string& owner, const store_effect& what) {
  const auto path = job_folder_name(j.id, j.spec.name);
  auto name = path + "/weights.safetensors";
  if (full) return disk_full(name);
  auto& f = folders_[path];
  f.owner = owner;
  f.weights = what.named;
  return {std::move(name), {}};
}

expected<std::optional<handover>, record_error> memory_states::newest(const prepared_job& j) {
  const auto f = folders_.find(folder_of(j));
  if (f == folders_.end() || f->second.checkpoints.empty()) return std::nullopt;
  const auto& last = f->second.checkpoints.back();
  auto made = handover_for(j, last.content, last.name, numerics_);
  if (!made) return unexpected(std::move(made).error());
  read += bytes_of(last.content.named);
  return *std::move(made);
}

expected<void> memory_states::keep(const keep_piece&) {
  return unexpected(error("a simulated machine takes no files of clients: submit the job without one"));
}

expected<std::optional<given_file>> memory_states::take_newest(const prepared_job& j, std::uint32_t job, const std::string& owner,
                                                               std::vector<std::string>&) {
  const saved* found = nullptr;
  for (const auto& [path, f] : folders_)
    for (const auto& c : f.checkpoints)
      if (f.owner == owner && c.content.job == j.spec.name && (!found || c.number > found->number)) found = &c;
  if (!found) return std::nullopt;
  given_[job] = *found;
  return given_file{given_file::checkpoint, found->name, bytes_of(found->content.named)};
}

expected<void, record_error> memory_states::begin(prepared_job& j, std::uint32_t job, const given_file& given,
                                                  const std::vector<std::string>& overrides) {
  const auto at = given_.find(job);
  const auto* c = at != given_.end() ? &at->second : find(given.file);
  if (!c) return unexpected(record_error{given.file, {}, "this machine has no such checkpoint"});
  return resume_from(j, c->content, given.file, numerics_, overrides);
}

}  // namespace troupe::control
