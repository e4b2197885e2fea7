// Who may read what of a job. check_read() is the only function that decides; every route asks it.
//
//   results   state, events, plans, activities of roles, metrics, job files: all that may look
//   values    weights, and what holds them or lets one compute them: the job's owner, admin
//
// A recording is `values`: run again, it gives the weights. So is a histogram: the one of a
// parameter with one element is its value. The owner of a job is the name in the certificate of the
// client that submitted it. If it is unknown, only an admin may read values.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/access/roles.hpp"
#include "runtime/base/result.hpp"

namespace troupe {

// The ways in which clients read something of a job.
enum class job_route : std::uint8_t {
  follow,      // results, its events: message `follow`; `troupe train --cluster`, `troupe attach`
  look,        // results, its plans and what its roles do: message `look`; traces
  query,       // results, by commands of the REPL and the page, and run folders on the page
  histograms,  // values, of weights and gradients, by such a command
  weights,     // values, the final ones: message `fetch`; `troupe fetch`, `troupe attach --out`
  recording,   // values: message `look`; `troupe replay --cluster`
  resume,      // values, a checkpoint: a new job with resume = "auto"
};

inline constexpr std::uint8_t job_route_count = 7;

// An error, for users, if `who` may not read this of the job. `job`: its number. `owner`: empty if
// it is unknown; results do not depend on it.
expected<void> check_read(const person& who, job_route by, std::uint32_t job = 0, const std::string& owner = {});
// A job reads what is kept of other jobs with the rights of its owner as a submitter: also a job
// of an admin continues only from checkpoints of its owner.
inline person reader_of_job(const std::string& owner) { return {owner, certificate_role::submit}; }

// An error, for users, if `who` may not steer the job.
expected<void> check_steer(const person& who, std::uint32_t job, const std::string& owner, const std::string& doing);

}  // namespace troupe
