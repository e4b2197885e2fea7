// Runs of small jobs on devices by name, for the tests of this folder.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "ops/device_descriptors.hpp"
#include "tests/actors/embedded_support.hpp"

namespace troupe::testing_gpu {

using testing_embedded::overrides;

struct curve {
  embedded_result result;
  std::vector<double> losses;  // of the steps
  double first() const { return losses.empty() ? NAN : losses.front(); }
  double last() const;  // mean of the last five steps
};

// A failed job is the failure of the test.
curve run_on(const std::vector<std::string>& devices, const std::shared_ptr<prepared_job>& j);
curve run_on(const std::vector<std::string>& devices, const overrides& set = {});  // the job lenet_like (embedded_support.hpp)
std::string weights_on(const std::vector<std::string>& devices, const overrides& set = {});  // their hash

void expect_same_curve(const curve& got, const curve& want, double bound);
// The job on the CPU and on gpu:0.
void expect_the_cpus_curve(const overrides& set, double bound);

}  // namespace troupe::testing_gpu
