#include "actors/control/admission.hpp"

namespace troupe::control {

std::uint64_t bytes_of(const job_text& t) {
  std::uint64_t n = t.file.size() + t.text.size();
  for (const auto& o : t.overrides) n += o.size() + sizeof o;
  return n;
}

expected<void> check_budget(const job_budget& b, std::size_t jobs, std::uint64_t bytes, std::uint64_t asked) {
  if (jobs >= b.jobs)
    return unexpected(error("the queue is full: " + std::to_string(jobs) +
                            " jobs are being checked, queued or running; submit again when one is over"));
  if (asked <= b.bytes && bytes <= b.bytes - asked) return {};
  return unexpected(error("the queue is full: the " + std::to_string(jobs) +
                          " jobs that are being checked, queued or running have " + std::to_string(bytes) +
                          " bytes of text, this one has " + std::to_string(asked) + ", and the limit for all is " +
                          std::to_string(b.bytes)));
}

std::uint32_t job_numbers::next(const std::function<bool(std::uint32_t number)>& known) {
  do
    if (++number_ == 0) {
      ++tag_;
      ++number_;
    }
  while (known(number_));
  return last();
}

}  // namespace troupe::control
