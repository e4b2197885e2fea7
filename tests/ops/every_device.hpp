// Fixture of tests that run on every available device.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "ops/device.hpp"
#include "ops/tensor_values.hpp"
#include "tests/ops/support.hpp"

namespace troupe::test {

class every_device : public ::testing::TestWithParam<device_case> {
 protected:
  tensor home(const tensor& t) const { return at_home(*dev, t); }
  template <class T = double>
  std::vector<T> values_of(const tensor& t) const {
    return test::values_of<T>(home(t));
  }
  const std::shared_ptr<device> dev = GetParam().make();
};

}  // namespace troupe::test
