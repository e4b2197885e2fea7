// Support for [job] convolution = "measured", in commands that run a job in this process.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/troupe_output.hpp"
#include "runtime/node/convolution_times.hpp"

namespace troupe {

// Chooses the algorithms of the job's convolutions: those of the checkpoint `resume`, if there is
// one, otherwise those that measurements show to be fastest. Must be called before other state is
// put into `j`. On failure prints the error and returns the exit code. `times` receives the
// measurements. Other devices than a CPU choose by themselves.
std::optional<int> choose_algorithms(std::shared_ptr<prepared_job>& j, device& d, const output& out, const std::string& resume = {},
                                     std::vector<timed_pass>* times = nullptr);

// Output of `troupe time` for one layer's convolution: the algorithm of each pass of training, and
// the measured candidates.
struct pass_entry {
  conv_pass pass = conv_pass::forward;
  std::string algorithm;
  std::vector<std::pair<std::string, double>> ms;  // of the candidates, fastest first; empty: not measured
};
std::vector<pass_entry> pass_entries(const prepared_job& j, std::uint32_t layer, const device& d,
                                     const std::vector<timed_pass>& times);

}  // namespace troupe
