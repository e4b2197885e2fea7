// What takes long and blocks, for the control plane: reads jobs, opens their data, makes and ends roles, hashes and writes weights.
// Run by one detached actor, one thing at a time, so no other actor ever waits for a disk.
// Errors: values. Nothing throws.
#pragma once

#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "actors/control/head.hpp"
#include "actors/shell/node_host.hpp"
#include "actors/shell/router.hpp"
#include "runtime/job/amend.hpp"
#include "runtime/job/job.hpp"
#include "runtime/node/convolution_times.hpp"
#include "runtime/record/second_place.hpp"

namespace troupe::control {

class keeper {
 public:
  struct place {
    const cluster_spec& cluster;
    std::string self, numerics;
    std::shared_ptr<const tables> all;
    std::filesystem::path state;
    node_host& host;
    router& route;
    std::shared_ptr<device> dev;  // the node's first: convolutions are measured on it
  };
  explicit keeper(place at);

  // Of the coordinator's node: also measures convolutions, where the job wants that; and begins the job with its file, if that is here.
  checked check(const check_text& what);
  std::string keep(const keep_piece& what);  // an error, or it is written
  void drop(std::uint32_t job);              // its file
  std::string make(const prepare& what);     // an error, or the roles are spawned
  // Another plan of the job. Of the coordinator's node: what a person's wish makes of the job that runs.
  plan_found amend(const check_move& what);
  std::string revise(const control::revise& what);  // an error, or the plan is made
  std::string swap(const control::swap& what);      // an error, or the roles of that plan are spawned
  void forget(std::uint32_t job);
  void hand_over(std::uint32_t job, const store_effect& what);  // from the plan that ends
  void end(std::uint32_t job);
  stored save(std::uint32_t job, const store_effect& what);

 private:
  using made = std::variant<std::shared_ptr<prepared_job>, diagnostics>;
  struct upload {
    std::filesystem::path path;
    std::ofstream out;
    given_file what;
  };
  made read(const job_text& what) const;
  std::variant<settled_convolutions, diagnostics> settled(const check_text& what, std::shared_ptr<prepared_job> j);
  std::optional<record_error> begin_with_given(prepared_job& j, const upload& u, const std::vector<std::string>& overrides) const;
  std::string continue_as(prepared_job& j, const prepare& what);
  plan_found plan_of(const check_move& what) const;
  std::string too_much(const prepared_job& j) const;
  std::string spawn(const std::shared_ptr<const prepared_job>& j, std::uint32_t leg);
  std::filesystem::path folder_of(const prepared_job& j) const;
  kept_file save_checkpoint_in(const std::filesystem::path& folder, const prepared_job& j, const store_effect& what) const;
  kept_file save_weights_in(const std::filesystem::path& folder, const prepared_job& j, const store_effect& what) const;

  const place at_;
  std::shared_ptr<const prepared_job> job_;       // hosted now
  std::shared_ptr<const prepared_job> original_;  // the same, or one that may be hosted, as it was submitted
  std::shared_ptr<prepared_job> next_;            // the plan to come
  std::uint32_t next_leg_ = 0;
  std::optional<store_effect> handed_;
  std::map<std::uint32_t, upload> uploads_;  // by job: files to begin with, until it begins
};

// Equal on two nodes when they have made the same plan.
std::string plan_hash(const job_plan& p);

}  // namespace troupe::control
