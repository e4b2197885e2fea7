// The saved state of jobs in memory, for a simulated machine. It outlives the machine's daemon, as
// a disk does. Tensors are shared with those who have saved them, also tensors that are only
// declared (a simulation without maths), so that a checkpoint costs no memory of its own.
//
// Not simulated: files that clients give, second places, `checkpoint.dir`, owners of folders.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "runtime/node/executor/state_store.hpp"
#include "runtime/record/checkpoint.hpp"

namespace troupe::control {

class memory_states final : public state_store {
 public:
  // `numerics`: numerics id of the machine's devices.
  explicit memory_states(std::string numerics) : numerics_(std::move(numerics)) {}

  bool full = false;            // nothing can be saved: the disk is full
  std::uint64_t bytes() const;  // of all tensors that are kept
  std::uint64_t read = 0;       // bytes of the checkpoints that newest() has returned

  void goes_on(std::uint32_t job, const std::string& kept) override;
  kept_file save_checkpoint(const prepared_job& j, const std::string& owner, const store_effect& what) override;
  kept_file save_weights(const prepared_job& j, const std::string& owner, const store_effect& what) override;
  expected<std::optional<handover>, record_error> newest(const prepared_job& j) override;
  std::size_t remove_old(const prepared_job*) override { return 0; }

  expected<void> keep(const keep_piece& what) override;
  expected<std::optional<given_file>> take_newest(const prepared_job& j, std::uint32_t job, const std::string& owner,
                                                  std::vector<std::string>& notes) override;
  bool has_given(std::uint32_t job) const override { return given_.contains(job); }
  void drop(std::uint32_t job) override { given_.erase(job); }
  expected<void, record_error> begin(prepared_job& j, std::uint32_t job, const given_file& given,
                                     const std::vector<std::string>& overrides) override;
  expected<void> check_place(const prepared_job&) override { return {}; }

 private:
  struct saved {
    std::string name;  // as a path
    std::uint64_t number = 0;
    checkpoint content;
  };
  struct folder {
    std::string owner;
    std::vector<saved> checkpoints;  // the newest last
    named_tensors weights;
  };
  std::string folder_of(const prepared_job& j) const;
  const saved* find(const std::string& name) const;

  const std::string numerics_;
  std::map<std::string, folder> folders_;
  std::map<std::uint32_t, std::string> continued_;  // by job id: the folder of a restored job
  std::map<std::uint32_t, saved> given_;            // by job id: what take_newest() has found
  std::uint64_t saves_ = 0;
};

}  // namespace troupe::control
