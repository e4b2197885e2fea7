// [job] convolution = "measured", for commands that run a job in this process.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/troupe_output.hpp"
#include "runtime/node/convolution_times.hpp"

namespace troupe {

// Settles which algorithms the job's convolutions use, before anything else is put into `j`: as the
// checkpoint `resume` has it where one is named, else as measured. Returns the exit code where that
// cannot be, and says why. `times`: what it was measured by.
std::optional<int> choose_algorithms(std::shared_ptr<prepared_job>& j, device& d, const output& out, const std::string& resume = {},
                                     std::vector<timed_pass>* times = nullptr);

// What `troupe time` says of one layer's convolution: the algorithm of each pass that training
// makes, and what else was timed.
struct pass_entry {
  conv_pass pass = conv_pass::forward;
  std::string algorithm;
  std::vector<std::pair<std::string, double>> ms;  // of the candidates, fastest first; empty: not measured
};
std::vector<pass_entry> pass_entries(const prepared_job& j, std::uint32_t layer, const device& d,
                                     const std::vector<timed_pass>& times);

}  // namespace troupe
