// What `troupe doctor` reads of the machine that runs the test.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "runtime/node/machine/reading.hpp"
#include "runtime/node/machine/speed.hpp"
#include "runtime/node/pki/certificates.hpp"

namespace troupe::machine {
namespace {

namespace fs = std::filesystem;

class machine_reading : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "troupe_machine_XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { fs::remove_all(folder_); }
  fs::path folder_;
};

TEST_F(machine_reading, finds_processor_memory_clock_and_limits) {
  wanted w;
  w.speed = false;
  w.why_no_speed = "a test";
  w.folders = {{"runs", (folder_ / "not" / "yet").string()}};
  const auto f = read_facts(w);
  EXPECT_GT(f.processor.cores, 0u);
  EXPECT_NE(f.processor.blas_kernel, "");
  EXPECT_GT(f.memory.total, f.memory.free);
  EXPECT_GT(f.clock.reading, 0);
  EXPECT_GT(f.limits.open_files, 0u);
  EXPECT_EQ(f.speed.skipped, "a test");
  EXPECT_TRUE(std::any_of(f.interfaces.begin(), f.interfaces.end(), [](const interface& i) { return i.loopback; }));
  ASSERT_EQ(f.folders.size(), 1u);
  EXPECT_EQ(f.folders[0].problem, "");
  EXPECT_GT(f.folders[0].free, 0u);
  EXPECT_FALSE(fs::exists(folder_ / "not")) << "nothing is made";
}

TEST_F(machine_reading, measures_a_folder_and_leaves_nothing_in_it) {
  const auto f = read_folder("runs", folder_.string(), true);
  EXPECT_EQ(f.problem, "");
  EXPECT_GT(f.write_rate, 0);
  EXPECT_GT(f.sync, 0);
  EXPECT_TRUE(fs::is_empty(folder_));
  std::ofstream(folder_ / "file") << "x";
  EXPECT_NE(read_folder("runs", (folder_ / "file").string(), true).problem, "");
}

TEST_F(machine_reading, measures_speeds) {
  const auto s = measure_speed(2);
  EXPECT_EQ(s.threads, 2u);
  for (const double rate : {s.peak_one, s.peak_all, s.sgemm_one, s.sgemm_all, s.memory_rate}) EXPECT_GT(rate, 1e6);
}

TEST_F(machine_reading, reads_a_pair_and_finds_an_open_key) {
  const auto dir = folder_ / "certs";
  certificate_options options;
  options.until = std::chrono::hours(24 * 20);
  ASSERT_TRUE(make_cluster_certificates(dir, "lab", {{"n1", {"127.0.0.1"}}}, options));
  const auto good = read_pair("n1", dir);
  EXPECT_EQ(good.problem, "");
  EXPECT_NEAR(good.days, 20, 0.1);
  EXPECT_EQ(read_pair("client", dir).problem, "");
  fs::permissions(dir / "n1.key", fs::perms(0644));
  EXPECT_EQ(read_pair("n1", dir).code, "key_exposed");
  EXPECT_EQ(read_pair("n2", dir).code, "certificate_missing");
}

TEST_F(machine_reading, tells_free_taken_and_foreign_ports) {
  const int s = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in a{};
  a.sin_family = AF_INET;
  a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof a;
  ASSERT_EQ(::bind(s, reinterpret_cast<sockaddr*>(&a), size), 0);
  ASSERT_EQ(::listen(s, 1), 0);
  ASSERT_EQ(::getsockname(s, reinterpret_cast<sockaddr*>(&a), &size), 0);
  EXPECT_EQ(state_of_port("127.0.0.1", ntohs(a.sin_port)), port_state::taken);
  ::close(s);
  EXPECT_EQ(state_of_port("127.0.0.1", ntohs(a.sin_port)), port_state::free);
  EXPECT_EQ(state_of_port("192.0.2.1", 7701), port_state::elsewhere);
  EXPECT_EQ(numeric_host("192.0.2.1"), "192.0.2.1");
  EXPECT_EQ(numeric_host("localhost").empty(), false);
}

}  // namespace
}  // namespace troupe::machine
