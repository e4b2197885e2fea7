// The saved state of jobs in files: below the node's state folder, or where the job file says.
// What does not fit there goes to a second place (runtime/record/second_place.hpp).
#pragma once

#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "runtime/node/executor/job_reading.hpp"
#include "runtime/node/executor/state_store.hpp"
#include "runtime/record/file_io.hpp"

namespace troupe::control {

class file_states final : public state_store {
 public:
  // `before`: called before every write of checkpoints and weights.
  explicit file_states(job_place at, before_write before = {}) : at_(std::move(at)), before_(std::move(before)) {}

  void goes_on(std::uint32_t job, const std::string& kept) override;
  kept_file save_checkpoint(const prepared_job& j, const std::string& owner, const store_effect& what) override;
  kept_file save_weights(const prepared_job& j, const std::string& owner, const store_effect& what) override;
  expected<std::optional<handover>, record_error> newest(const prepared_job& j) override;
  std::size_t remove_old(const prepared_job* running) override;

  expected<void> keep(const keep_piece& what) override;
  expected<std::optional<given_file>> take_newest(const prepared_job& j, std::uint32_t job, const std::string& owner,
                                                  std::vector<std::string>& notes) override;
  bool has_given(std::uint32_t job) const override;
  void drop(std::uint32_t job) override;
  expected<void, record_error> begin(prepared_job& j, std::uint32_t job, const given_file& given,
                                     const std::vector<std::string>& overrides) override;
  expected<void> check_place(const prepared_job& j) override;

 private:
  std::filesystem::path checkpoints_of(const prepared_job& j) const;
  second_place& elsewhere_of(std::uint32_t job);

  const job_place at_;
  const before_write before_;
  std::map<std::uint32_t, std::filesystem::path> continued_;  // by job id: the folder of a restored job's checkpoints
  std::map<std::uint32_t, std::ofstream> uploads_;            // by job id: files that clients send
  std::pair<std::uint32_t, second_place> elsewhere_;          // of the last job that saved
};

}  // namespace troupe::control
