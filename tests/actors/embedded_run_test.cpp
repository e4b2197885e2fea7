// Tests of embedded_run: every run ends with a result, and events report its progress.
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <thread>

#include <unistd.h>

#include "runtime/data/packed.hpp"
#include "runtime/stage/stage.hpp"
#include "tests/actors/embedded_support.hpp"

namespace troupe {
namespace {

using namespace testing_embedded;

std::vector<std::string> kinds_but_steps(const std::shared_ptr<prepared_job>& j) {
  std::vector<std::string> kinds;
  embedded_options o;
  o.on_event = [&](const event_effect& e) {
    if (!e.is<step_event>()) kinds.push_back(name_of(e).name);
  };
  EXPECT_TRUE(embedded(j, std::move(o)).ok);
  return kinds;
}

TEST(embedded_run, reports_evaluations_and_the_end_in_order) {
  const auto kinds = kinds_but_steps(job_of(lenet_like(), {"eval.every=8"}));
  EXPECT_EQ(kinds, (std::vector<std::string>{"eval", "eval", "eval", "done"}));
}

TEST(embedded_run, returns_the_final_weights_in_layer_order) {
  const auto j = job_of(lenet_like());
  const auto r = embedded(j);
  ASSERT_EQ(r.weights.size(), j->graph.params.size());
  for (std::size_t i = 0; i < r.weights.size(); ++i) EXPECT_EQ(r.weights[i].first, j->graph.params[i].full_name);
  EXPECT_TRUE(check_weights(j->graph, r.weights));
  EXPECT_EQ(weights_sha256(r.weights), r.weights_sha256);
}

// Promise 13 (docs/promises.md), in memory: a run that stops at any step and continues from its
// checkpoint has the same bits.
TEST(embedded_run, continues_from_a_checkpoint_with_the_same_bits) {
  const auto unbroken = embedded(job_of(lenet_like(), {"train.finish.steps=40"})).weights_sha256;
  for (std::uint64_t at : {1u, 7u, 20u}) {
    store_effect kept;
    embedded_options o;
    o.threads = 2;
    embedded_run* self = nullptr;
    o.on_event = [&](const event_effect& e) {
      if (e.is<step_event>() && e.step == at) self->stop();
    };
    o.on_store = [&](const store_effect& s) {
      if (s.what == store_effect::kind_of::checkpoint) kept = s;
    };
    embedded_run first(job_of(lenet_like(), {"train.finish.steps=40"}), std::move(o));
    self = &first;
    const auto broken = first.run();
    ASSERT_TRUE(broken.ok && broken.stopped);
    ASSERT_LT(broken.step, 40u);
    ASSERT_EQ(kept.step, broken.step);
    const auto j = job_of(lenet_like(), {"train.finish.steps=40", "topology.workers_per_group=2"});
    begin_at(*j, kept.step, kept.named);
    EXPECT_EQ(embedded(j).weights_sha256, unbroken) << "stopped at step " << kept.step;
  }
}

TEST(embedded_run, stops_when_stop_is_called_before_run) {
  const auto j = job_of(lenet_like(), {"train.finish.steps=1000000"});
  embedded_options o;
  o.threads = 2;
  embedded_run run(j, std::move(o));
  run.stop();
  const auto r = run.run();
  EXPECT_TRUE(r.ok && r.stopped);
  EXPECT_LT(r.step, 20u);
}

TEST(embedded_run, two_runs_in_one_process_do_not_affect_each_other) {
  const auto expected = plain_hash(job_of(lenet_like()), 20);
  std::string other;
  std::thread t([&] { other = embedded(job_of(lenet_like())).weights_sha256; });
  EXPECT_EQ(embedded(job_of(lenet_like())).weights_sha256, expected);
  t.join();
  EXPECT_EQ(other, expected);
}

// A job in which layers of this type have the stage `Role`.
template <class Role>
std::shared_ptr<prepared_job> job_with(const char* type) {
  const auto j = job_of(lenet_like());
  auto all = std::make_shared<tables>(stock_tables());
  all->stages.add(type, {[](stage_config c) { return std::make_unique<Role>(std::move(c)); }, {}});
  j->all = all;
  return j;
}

struct throwing_stage final : stage {
  using stage::stage;
  void begin_forward(slot& s, effects& out) override {
    if (s.h.step == 3) throw std::runtime_error("out of luck");
    stage::begin_forward(s, out);
  }
};

TEST(embedded_run, ends_with_an_error_that_names_the_role_when_a_role_throws) {
  const auto r = embedded(job_with<throwing_stage>("dropout"));
  EXPECT_FALSE(r.ok);
  EXPECT_EQ(r.where, "worker0/drop1");
  EXPECT_EQ(r.error, "out of luck");
}

struct silent_stage final : stage {
  using stage::stage;
  void begin_forward(slot&, effects&) override {}
};

TEST(embedded_run, ends_and_names_the_waiting_role_when_no_message_is_handled) {
  embedded_options o;
  o.stall_after = std::chrono::seconds(2);
  const auto r = embedded(job_with<silent_stage>("dropout"), std::move(o));
  EXPECT_FALSE(r.ok);
  EXPECT_NE(r.error.find("no role handled a message for 2 s"), std::string::npos) << r.error;
  EXPECT_NE(r.error.find("coordinator waits for losses of step 0"), std::string::npos) << r.error;
}

TEST(embedded_run, fails_when_weights_become_non_finite) {
  const auto r = embedded(job_of(lenet_like(), {"train.dynamics.lr=1e20"}));
  EXPECT_FALSE(r.ok);
  EXPECT_NE(r.error.find("not finite"), std::string::npos) << r.error;
}

TEST(embedded_run, says_what_to_change_when_training_diverges) {
  const auto error_of = [](const std::string& dynamics) {
    return embedded(job_of(lenet_like(), {"train.dynamics=" + dynamics})).error;
  };
  const auto sgd = error_of("{ rule = \"momentum\", lr = 1e20, momentum = 0.9 }");
  EXPECT_NE(sgd.find("lower train.dynamics.lr (1e+20 now, try 1e+19)"), std::string::npos) << sgd;
  EXPECT_NE(sgd.find("train.dynamics.clip.norm = 1"), std::string::npos) << sgd;
  EXPECT_NE(sgd.find("`troupe data`"), std::string::npos) << sgd;
  const auto adam = error_of("{ rule = \"adam\", lr = 1e30 }");
  EXPECT_NE(adam.find("(1e+30 now, try 0.001, which is usual for adam)"), std::string::npos) << adam;
}

// One step with a finite loss: that its update is not finite shows only in the weights.
TEST(embedded_run, does_not_store_weights_that_are_non_finite_after_the_last_step) {
  std::vector<std::string> stored;
  embedded_options o;
  o.on_store = [&](const store_effect& s) { stored.push_back(name_of(s.what)); };
  const auto r = embedded(job_of(lenet_like(), {"train.dynamics.lr=1e300", "train.finish.steps=1"}), std::move(o));
  EXPECT_FALSE(r.ok);
  EXPECT_NE(r.error.find(".weight' is not finite at step 1"), std::string::npos) << r.error;
  EXPECT_TRUE(stored.empty()) << stored[0];
  EXPECT_TRUE(r.weights.empty());
}

// A data set that is truncated during the job ends the job with an error that names the file; the
// process continues.
TEST(embedded_run, names_the_file_when_a_packed_data_set_is_truncated_during_the_run) {
  std::string folder = (std::filesystem::temp_directory_path() / "troupe_cut_XXXXXX").string();
  ASSERT_TRUE(::mkdtemp(folder.data()));
  const auto file = folder + "/data.pack";
  ASSERT_TRUE(pack(*job_of(lenet_like())->data, file).has_value());
  embedded_options o;
  o.on_event = [&](const event_effect& e) {
    if (e.is<step_event>() && e.step == 3) std::filesystem::resize_file(file, packed_alignment);
  };
  const auto r = embedded(
      job_of(lenet_like(), {"data={source=\"packed\",path=\"" + file + "\",batch=16}", "train.finish.steps=100000"}), std::move(o));
  std::filesystem::remove_all(folder);
  EXPECT_FALSE(r.ok);
  EXPECT_NE(r.where.find("loader"), std::string::npos) << r.where;
  EXPECT_NE(r.error.find(file + ": it has been cut short: it had "), std::string::npos) << r.error;
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // they do not return freed memory
double resident_mib() {
  std::ifstream f("/proc/self/statm");
  double total = 0, resident = 0;
  f >> total >> resident;
  return resident * static_cast<double>(sysconf(_SC_PAGESIZE)) / (1024.0 * 1024.0);
}

TEST(embedded_run, memory_stays_flat_between_step_500_and_5000) {
  double early = 0, late = 0;
  embedded_options o;
  o.activity_record = std::size_t{1} << 20;  // full before step 500
  o.on_event = [&](const event_effect& e) {
    if (!e.is<step_event>()) return;
    if (e.step == 500) early = resident_mib();
    if (e.step == 5000) late = resident_mib();
  };
  const overrides set{"train.finish.steps=5000", "data.batch=8", "topology.workers_per_group=2", "pipeline.sub_solvers=2"};
  ASSERT_TRUE(embedded(job_of(lenet_like(), set), std::move(o)).ok);
  EXPECT_LT(late, early + 8) << early << " MiB at step 500, " << late << " MiB at step 5000";
}
#endif

}  // namespace
}  // namespace troupe
