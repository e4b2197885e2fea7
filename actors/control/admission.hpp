// What submissions may take of the coordinator's memory, and how jobs are numbered. Values, without
// jobs or clients.
//
// A submission counts from its arrival until its job is over: while it is checked, while its file
// comes, while it waits and while it runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "actors/control/messages.hpp"

namespace troupe::control {

struct job_budget {
  std::size_t jobs = 256;
  std::uint64_t bytes = std::uint64_t{64} << 20;  // of their texts
};

// Every position in a job's text has the name of its file, and so every mistake that is told.
constexpr std::size_t max_file_name = 4096;

std::uint64_t bytes_of(const job_text& t);

// Why a submission of `asked` bytes is not taken beside `jobs` others that have `bytes`; empty: it
// is.
std::string over_budget(const job_budget& b, std::size_t jobs, std::uint64_t bytes, std::uint64_t asked);

// Ids of jobs are unique over restarts: a tag of the daemon's life, and a number. People count from
// 1.
constexpr std::uint32_t number_of(std::uint32_t job) { return job & 0xffff; }

// Numbers do not run out, though whoever is refused has used one up: after 65535 they begin again
// at 1, with the next tag, and pass over those by which people still know a job.
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
