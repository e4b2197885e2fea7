// Limits the memory that submissions take on the coordinator's node, and numbers jobs. Pure
// functions and values.
//
// A submission counts from its arrival until its job is over: while it is checked, while its file
// is uploaded, while it is queued and while it runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "runtime/base/result.hpp"
#include "runtime/cluster/messages.hpp"

namespace troupe::control {

struct job_budget {
  std::size_t jobs = 256;
  std::uint64_t bytes = std::uint64_t{64} << 20;  // of job texts
};

// Bytes of an error of a job; the rest is cut. The journal and all views hold the errors of many
// jobs.
constexpr std::size_t longest_job_error = 64 << 10;

std::uint64_t bytes_of(const job_text& t);

// An error if a submission of `asked` bytes exceeds the budget, next to `jobs` others with `bytes`.
expected<void> check_budget(const job_budget& b, std::size_t jobs, std::uint64_t bytes, std::uint64_t asked);

// An error if a job of this text could not be sent to nodes of these names: the messages `prepare`
// and `revise` add the addresses of all nodes, and the changes that users make while the job runs.
expected<void> check_frames(const job_text& t, const std::vector<std::string>& nodes);
// An error if the message would not fit a frame.
expected<void> check_frame(const message& m);

// Job ids are unique over restarts: the tag of the daemon's incarnation and a number. Users see the
// number, which starts at 1.
constexpr std::uint32_t number_of(std::uint32_t job) { return job & 0xffff; }

// Assigns job ids. Refused submissions use numbers too. After 65535 numbers start again at 1, with
// the next tag, and skip the numbers of jobs that are still `known`.
class job_numbers {
 public:
  explicit job_numbers(std::uint16_t tag) : tag_(tag) {}
  std::uint32_t next(const std::function<bool(std::uint32_t number)>& known);
  void go_on_after(std::uint32_t number) { number_ = static_cast<std::uint16_t>(number); }
  std::uint32_t id_of(std::uint32_t number) const { return std::uint32_t{tag_} << 16 | number; }
  std::uint32_t last() const { return std::uint32_t{tag_} << 16 | number_; }

 private:
  std::uint16_t tag_, number_ = 0;
};

}  // namespace troupe::control
