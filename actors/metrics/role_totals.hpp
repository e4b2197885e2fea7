// Sums of the counters of roles by job, kind of role and layer. Roles come and go with plans, and
// their counters begin at 0 again; the sums never fall. Of at most `max_jobs_exported` jobs, the
// newest ones. Call take() at least once a second: the work of a role since its last call is lost
// when it ends.
// A value; for one thread. Errors: none.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "actors/metrics/event_totals.hpp"
#include "actors/shell/node_host.hpp"

namespace troupe {

class role_totals {
 public:
  struct group {                                              // of a kind and a layer
    double messages = 0, tasks = 0, busy = 0;                 // totals; seconds
    double roles = 0, queued = 0, in_flight = 0, credit = 0;  // now
  };
  struct codec_bytes {
    double sums = 0, sent = 0;
  };
  struct of_job {
    std::map<std::pair<std::string, std::string>, group> groups;   // by kind and layer
    std::map<std::string, std::array<double, wait_kinds>> waited;  // by kind; seconds
    std::vector<std::uint64_t> staleness;                          // by clocks; the last element: all older ones
    std::vector<codec_bytes> pushed;                               // by codec_kind
  };

  void take(const std::vector<role_published>& roles);

  const std::map<std::uint32_t, of_job>& jobs() const { return jobs_; }
  const drop_counts& dropped() const { return dropped_; }

 private:
  void add(of_job& j, const role_published& r, const role_published& before);

  std::map<std::uint32_t, of_job> jobs_;
  drop_counts dropped_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, role_published> seen_;  // by job and role
};

// "stage" and "conv1" of a role "worker0/conv1"; other kinds of roles have no layer.
std::string layer_of(const role_published& r);

}  // namespace troupe
