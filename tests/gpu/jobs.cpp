#include "tests/gpu/jobs.hpp"

#include <algorithm>
#include <numeric>

namespace troupe::testing_gpu {

double curve::last() const {
  const auto n = std::min<std::ptrdiff_t>(5, std::ssize(losses));
  return std::accumulate(losses.end() - n, losses.end(), 0.0) / static_cast<double>(n);
}

curve run_on(const std::vector<std::string>& devices, const std::shared_ptr<prepared_job>& j) {
  curve c;
  embedded_options o;
  o.devices = make_devices(devices);
  o.on_event = [&](const event_effect& e) {
    if (!e.is<step_event>()) return;
    for (const auto& [name, value] : flatten(e).values)
      if (name == "loss") c.losses.push_back(value);
  };
  c.result = testing_embedded::embedded(j, std::move(o));
  EXPECT_TRUE(c.result.ok) << c.result.where << ": " << c.result.error;
  for (const auto& [name, weight] : c.result.weights) EXPECT_TRUE(weight.space().host()) << name;
  return c;
}

curve run_on(const std::vector<std::string>& devices, const overrides& set) {
  return run_on(devices, testing_embedded::job_of(testing_embedded::lenet_like(), set, devices));
}

std::string weights_on(const std::vector<std::string>& devices, const overrides& set) {
  return run_on(devices, set).result.weights_sha256;
}

void expect_same_curve(const curve& got, const curve& want, double bound) {
  ASSERT_EQ(got.losses.size(), want.losses.size());
  for (std::size_t i = 0; i < want.losses.size(); ++i) EXPECT_NEAR(got.losses[i], want.losses[i], bound) << "step " << i + 1;
}

void expect_the_cpus_curve(const overrides& set, double bound) {
  expect_same_curve(run_on({"gpu:0"}, set), run_on({"cpu:0"}, set), bound);
}

}  // namespace troupe::testing_gpu
