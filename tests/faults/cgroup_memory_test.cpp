// Daemons in cgroups with little memory (promise 15). A job or a request of an exchange client is
// either served or refused with a reason. The kernel never kills a daemon, and a daemon trains
// other jobs after a refusal.
#include <algorithm>
#include <random>

#include "runtime/exchange/troupe_exchange.h"
#include "tests/cgroup.hpp"
#include "tests/cluster/processes.hpp"
#include "tests/environment.hpp"

namespace troupe::testing_cluster {
namespace {

constexpr std::int64_t mib = std::int64_t{1} << 20;
constexpr std::int32_t patient_ms = 30000;

class memory_in_a_cgroup : public cluster_test, public testing::WithParamInterface<std::int64_t> {
 protected:
  void SetUp() override {
    if (group_.folder().empty()) GTEST_SKIP() << "no cgroup can be made here";
    before_ = group_.step_into();
    make_cluster(1);
    start("n1");
    first_ = daemon("n1").pid();
    address_ = "127.0.0.1:" + std::to_string(control_port("n1"));
    tls_ = path("certs");
  }

  void TearDown() override { daemons_.clear(); }  // a cgroup can be removed when it has no process

  void expect_alive(const std::string& after) {
    ASSERT_EQ(group_.kills(), 0u) << "the kernel has killed a process after " << after;
    ASSERT_NE(ask("n1", "status").how, repl_reply::kind::failed) << after << "\n" << daemon("n1").log();
    ASSERT_EQ(daemon("n1").pid(), first_);
  }
  void expect_trains(const std::string& after) {
    const auto r = run(tiny_job());
    EXPECT_EQ(r.outcome.how, cluster_outcome::end::done) << after << ": " << said(r);
    expect_alive(after);
  }
  static std::string said(const run_result& r) {
    std::string all;
    for (const auto& m : r.outcome.messages) all += m + "\n";
    return all;
  }
  // Runs the job and expects that it is done or refused for its memory.
  run_result expect_answered(const std::vector<std::string>& set, const std::string& what) {
    auto r = run(tiny_job(), set);
    const auto text = said(r);
    std::cout << what << ": " << (r.outcome.how == cluster_outcome::end::done ? "done" : text) << std::endl;
    EXPECT_TRUE(r.outcome.how == cluster_outcome::end::done || text.find("would hold about") != std::string::npos)
        << what << ": " << text;
    expect_alive(what);
    return r;
  }

  troupe_exchange* open(const std::string& session, int method = TROUPE_EXCHANGE_EASGD) {
    const troupe_exchange_options o{sizeof o, address_.c_str(), tls_.c_str(), session.c_str(), 0, 1, method, 0.5, patient_ms};
    troupe_exchange* x = nullptr;
    code_ = troupe_exchange_open(&o, &x);
    return x;
  }
  // Declares buffers until one is refused. Returns how many were accepted.
  int fill_with_centres(troupe_exchange* x, int most) {
    std::vector<float> values(4 * mib, 1.0f);
    for (int n = 0; n < most; ++n) {
      std::int32_t b = -1;
      code_ =
          troupe_exchange_register(x, ("w" + std::to_string(n)).c_str(), TROUPE_EXCHANGE_FLOAT32, values.size(), patient_ms, &b);
      if (code_ == 0) code_ = troupe_exchange_exchange(x, b, values.data(), values.size(), patient_ms);
      if (code_ != 0) return n;
    }
    return most;
  }
  int fill_with_shares(troupe_exchange* x, int most) {
    const std::vector<float> values(16 * mib, 1.0f);
    for (int n = 0; n < most; ++n) {
      std::int32_t a = -1;
      code_ = troupe_exchange_share(x, ("a" + std::to_string(n)).c_str(), TROUPE_EXCHANGE_FLOAT32, values.size(), values.data(),
                                    patient_ms, &a);
      if (code_ != 0) return n;
    }
    return most;
  }

  small_group group_{GetParam()};
  pid_t first_ = 0;
  std::string address_, tls_;
  int code_ = 0;
};

TEST_P(memory_in_a_cgroup, a_job_of_many_examples_leaves_the_daemon_alive) {
  for (const char* sampler : {"shuffle", "own_order", "shard", "seeded"}) {
    const auto kind = "train.sampler.kind=\"" + std::string(sampler) + "\"";
    const auto r = expect_answered(
        {"data.examples=400000000", "eval.every=0", "data.test_examples=24", "train.finish={steps=3}", kind}, sampler);
    EXPECT_EQ(r.outcome.how, cluster_outcome::end::done) << sampler << ": " << said(r);
  }
  expect_trains("many examples");
}

TEST_P(memory_in_a_cgroup, exchange_clients_over_the_limit_are_refused_and_the_daemon_lives) {
  auto* x = open("centres");
  ASSERT_EQ(code_, 0) << troupe_exchange_error_text();
  const auto centres = fill_with_centres(x, 2000);
  EXPECT_EQ(code_, TROUPE_EXCHANGE_TOO_LARGE) << centres << " centres: " << troupe_exchange_error_text();
  expect_alive("centres");
  EXPECT_EQ(troupe_exchange_barrier(x, patient_ms), 0) << "the session continues: " << troupe_exchange_error_text();
  expect_trains("the centres were allocated");
  troupe_exchange_close(x);

  auto* y = open("shares");
  ASSERT_EQ(code_, 0) << troupe_exchange_error_text();
  const auto shares = fill_with_shares(y, 200);
  EXPECT_EQ(code_, TROUPE_EXCHANGE_TOO_LARGE) << shares << " shares: " << troupe_exchange_error_text();
  expect_alive("shares");
  expect_trains("the shares were allocated");
  troupe_exchange_close(y);
  expect_trains("the clients have closed");
}

// Jobs around the memory limit: large parameters or large activations. TROUPE_MEMORY_JOBS sets the
// number of jobs, TROUPE_MEMORY_SEED the seed.
TEST_P(memory_in_a_cgroup, jobs_of_any_size_train_or_are_refused_with_the_reason) {
  const auto seed = from_environment("TROUPE_MEMORY_SEED", 1);
  std::mt19937_64 random(seed);
  expect_trains("nothing");
  const auto limit = static_cast<double>(GetParam());
  for (std::uint64_t n = from_environment("TROUPE_MEMORY_JOBS", 4); n > 0 && !HasFatalFailure(); --n) {
    const auto part = limit * std::uniform_real_distribution<double>(0.2, 1.2)(random);
    const bool wide = random() % 2 == 0;
    // A linear layer on 4 x 6 x 6 values has 144 weights per output, in three or four copies; an
    // example of conv1 takes about 3 KiB.
    const auto outputs = std::max(1.0, part / (144 * 4 * 3)), batch = std::max(1.0, part / 6000);
    std::vector<std::string> set{"train.finish={steps=3}", "data.examples=4000000", "data.test_examples=24"};
    set.push_back(wide ? "layer.ip1.outputs=" + std::to_string(static_cast<std::int64_t>(outputs))
                       : "data.batch=" + std::to_string(static_cast<std::int64_t>(batch) / 4 * 4));
    set.push_back("eval.batch=24");
    expect_answered(set, "seed " + std::to_string(seed) + ", " + set[3]);
  }
  expect_answered({"layer.ip1.outputs=10000000"}, "far too large");
  expect_trains("all of them");
}

INSTANTIATE_TEST_SUITE_P(limits, memory_in_a_cgroup, testing::Values(256 * mib, 512 * mib, 1024 * mib),
                         [](const auto& i) { return "mib_" + std::to_string(i.param / mib); });

}  // namespace
}  // namespace troupe::testing_cluster
