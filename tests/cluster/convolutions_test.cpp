// A job with measured convolution algorithms on several daemons: all nodes use the coordinator's
// choice.
#include <cstdlib>
#include <filesystem>

#include "actors/embedded.hpp"
#include "ops/device.hpp"
#include "runtime/node/config/job_file.hpp"
#include "runtime/node/convolution_times.hpp"
#include "tests/cluster/embedded_hash.hpp"
#include "tests/cluster/processes.hpp"

namespace troupe::testing_cluster {
namespace {

using enum conv_algorithm;

// Writes a cache of measured times in which algorithm `a` is the fastest for conv1 of the tiny job.
void believe(const std::string& cache_home, conv_algorithm a) {
  setenv("XDG_CACHE_HOME", cache_home.c_str(), 1);
  const auto d = make_cpu_device();
  convolution_cache cache(convolution_cache_file(), machine_words(*d));
  for (const std::int64_t batch : {24, 12, 8, 6, 4})
    for (const auto p : conv_passes_all) {
      const conv_geometry g{.batch = batch, .channels = 1, .height = 8, .width = 8, .outputs = 4, .kernel_h = 3, .kernel_w = 3};
      conv_times t;
      for (const auto& name : conv_algorithm_names())
        if (const auto one = conv_algorithm_named(name); one != automatic && why_not(one, g).empty()) t[one] = one == a ? 0.5 : 5;
      cache.put(g, p, t);
    }
  cache.save();
}

class cluster_convolutions : public cluster_test {
 protected:
  ~cluster_convolutions() override { unsetenv("XDG_CACHE_HOME"); }
};

TEST_F(cluster_convolutions, all_nodes_use_the_algorithm_that_the_coordinator_chose) {
  make_cluster(3);
  believe(path("first"), lowering3);
  start("n1");
  believe(path("others"), lowering2);  // what the other nodes would choose
  start("n2");
  start("n3");
  for (const char* n : {"n1", "n2", "n3"}) ASSERT_TRUE(joined(n));
  auto set = workers(3, 2);
  set.emplace_back("job.convolution=measured");
  const auto r = run(tiny_job(), set);
  ASSERT_EQ(r.outcome.how, cluster_outcome::end::done) << (r.outcome.messages.empty() ? "" : r.outcome.messages.front());
  const auto chosen = embedded_hash(tiny_job(), {"layer.conv1.algorithm=lowering3"});
  EXPECT_EQ(r.text("weights_sha256"), chosen);
  EXPECT_NE(embedded_hash(tiny_job(), {"layer.conv1.algorithm=lowering2"}), chosen)
      << "both algorithms give the same bits, so this test cannot tell them apart";
}

}  // namespace
}  // namespace troupe::testing_cluster
