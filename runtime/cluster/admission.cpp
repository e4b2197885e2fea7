#include "runtime/cluster/admission.hpp"

#include <algorithm>

#include "runtime/base/wording.hpp"

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

expected<void> check_frames(const job_text& t, const std::vector<std::string>& nodes) {
  constexpr std::size_t address_bytes = 256, hash_bytes = 64, changes_bytes = 256 << 10;
  prepare p{0, t, std::string(hash_bytes, ' '), {}, false, 0};
  for (const auto& n : nodes) p.places.push_back({n, std::string(address_bytes, ' '), 0});
  const auto bytes = encode(p).size(), own = encode(submit{t}).size(), most = max_message - changes_bytes;
  if (bytes <= most) return {};
  return unexpected(error("the job file, its included files and its overrides have " + with_commas(own) +
                          " bytes; on this cluster a job may have at most " + with_commas(most - std::min(most, bytes - own)) +
                          ": put long lists into files, or include less"));
}

expected<void> check_frame(const message& m) {
  const auto bytes = encode(m).size();
  if (bytes <= max_message) return {};
  return unexpected(error("the plan needs a message of " + with_commas(bytes) + " bytes to its nodes; a message has at most " +
                          with_commas(max_message)));
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
