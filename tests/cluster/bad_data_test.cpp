// A data file is truncated while a job reads it: the job ends with an error that names the file,
// and the daemons continue.
#include <filesystem>

#include "runtime/data/packed.hpp"
#include "tests/cluster/processes.hpp"

namespace troupe::testing_cluster {
namespace {

class cluster_data : public cluster_test {
 protected:
  // The tiny job's data in a file, and the job that reads it.
  std::string packed_job() const {
    source_registry all;
    add_stock_sources(all);
    const auto* made_up = all.find("synthetic");
    const options given{{{"shape", std::vector<std::int64_t>{1, 8, 8}},
                         {"classes", std::int64_t{4}},
                         {"examples", std::int64_t{480}},
                         {"test_examples", std::int64_t{48}}}};
    const auto r = pack(*made_up->open(check_options(given, made_up->specs), 3), path("data.pack"));
    EXPECT_TRUE(r.has_value()) << r.error().text;
    auto text = tiny_job();
    const auto from = text.find("source"), end = text.find("batch = 24");
    return text.replace(from, end - from, "source = \"packed\"\npath = \"" + path("data.pack") + "\"\n");
  }
};

TEST_F(cluster_data, truncating_a_packed_file_ends_the_job_and_no_daemon) {
  data_ = {folder_.string()};
  make_cluster(2);
  start_all();
  const auto b = begin(packed_job(), endless(workers(2, 1)));
  ASSERT_TRUE(b->wait_event("step", 20s, 50));
  std::filesystem::resize_file(path("data.pack"), 4096);
  const auto r = b->join();
  EXPECT_EQ(r.outcome.exit_code(), 1);
  std::string all;
  for (const auto& m : r.outcome.messages) all += m + "\n";
  for (const auto& e : r.events) all += message_of(e.event) + "\n";
  EXPECT_NE(all.find("data.pack: it has been cut short: "), std::string::npos) << all;
  // The daemons still run the next job.
  EXPECT_EQ(run(tiny_job(), workers(2, 1)).outcome.exit_code(), 0);
}

}  // namespace
}  // namespace troupe::testing_cluster
