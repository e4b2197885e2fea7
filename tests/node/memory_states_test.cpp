// The saved state of jobs in the memory of a simulated machine (runtime/node/executor/
// memory_states.hpp), as the job executor and the checker use it.
#include "runtime/node/executor/memory_states.hpp"

#include <gtest/gtest.h>

#include "ops/device.hpp"
#include "runtime/node/executor/checker.hpp"
#include "runtime/record/sha256.hpp"
#include "tests/error_text.hpp"
#include "tests/node/executor_support.hpp"

namespace troupe::executor_test {
namespace {

using namespace control;

constexpr const char* full_disk = "cannot write: No space left on device";

struct memory_states_test : testing::Test {
  const cluster_spec cluster = cluster_of(2);
  const std::shared_ptr<device> dev = make_cpu_device();
  const std::shared_ptr<memory_states> states = std::make_shared<memory_states>("");
  noting_host host;
  std::optional<job_executor> node;
  std::vector<std::string> set;  // overrides of the job file

  made_plan plan() const { return *node_preparer(place_of(cluster, "n1")).first(job, small_job(set)); }

  void start(std::map<std::uint32_t, unfinished_job> taken_up = {}) {
    job_executor::place at{place_of(cluster, "n1"), host, host, nullptr, std::move(taken_up)};
    at.states = states;
    at.reserves_memory = false;
    node.emplace(std::move(at));
  }

  std::string make(std::uint64_t from = 0) {
    prepare p;
    p.job = job;
    p.what = small_job(set);
    p.plan_hash = plan().hash;
    p.owner = "alice";
    p.continued = from > 0;
    p.from = from;
    return test::error_text(node->make(p));
  }

  // The state of the job after a step: backed weights, and a momentum that is only declared.
  store_effect state(std::uint64_t step) const {
    const auto j = plan().job;
    auto named = initial_weights(*j, *dev);
    for (const auto& p : j->graph.params) named.emplace_back(p.full_name + "@momentum", tensor::declare(p.spec.dims, dtype::f32));
    auto with = std::make_shared<handover>();
    with->step = with->evaluated = step;
    return {kept_kind::checkpoint, step, std::move(named), std::move(with)};
  }

  stored save(const store_effect& what) { return *node->save({job, what}); }

  // The step to which the job goes back when n2 has failed.
  std::uint64_t goes_back() {
    check_move m;
    m.job = job;
    m.wish.what = loss_of({"n2"});
    m.plan_generation = 1;
    m.back = going_back{};
    m.back->live = false;
    const auto found = node->amend(m);
    EXPECT_EQ(test::error_text(found), "");
    return found ? found->from : 0;
  }

  std::uint32_t job = 0x10007;
};

TEST_F(memory_states_test, a_job_goes_back_to_the_checkpoint_that_it_saved_last) {
  start();
  EXPECT_EQ(make(), "");
  EXPECT_EQ(goes_back(), 0u) << "there is none yet: the fillers' values";
  EXPECT_EQ(save(state(5)).error, "");
  const auto last = state(8);
  EXPECT_EQ(save(last).error, "");
  EXPECT_EQ(goes_back(), 8u);

  amendments a;
  a.without = {"n2"};
  revise r;
  r.what.job = job;
  r.what.what = small_job();
  r.what.plan_hash = node_preparer(place_of(cluster, "n1")).again(plan().job, a)->hash;
  r.plan_generation = 1;
  r.without = {"n2"};
  EXPECT_EQ(test::error_text(node->revise(r)), "");
  control::swap s;
  s.job = job;
  s.plan_generation = 1;
  s.step = 8;
  EXPECT_EQ(test::error_text(node->swap(s)), "");
  ASSERT_TRUE(host.spawned && host.spawned->before);
  EXPECT_EQ(host.spawned->first_step, 8u);
  const auto& named = host.spawned->before->named;
  ASSERT_EQ(named.size(), last.named.size());
  for (std::size_t i = 0; i < named.size(); ++i) {
    EXPECT_EQ(named[i].first, last.named[i].first);
    EXPECT_EQ(named[i].second.owner(), last.named[i].second.owner()) << "tensors are shared; null: declared";
  }
}

TEST_F(memory_states_test, keeps_as_many_checkpoints_as_the_job_says) {
  set = {"checkpoint.keep=2"};
  start();
  EXPECT_EQ(make(), "");
  save(state(1));
  const auto one = states->bytes();
  EXPECT_GT(one, 0u);
  save(state(2));
  EXPECT_EQ(states->bytes(), 2 * one);
  save(state(3));
  EXPECT_EQ(states->bytes(), 2 * one);
}

TEST_F(memory_states_test, a_full_disk_refuses_a_checkpoint_and_keeps_the_one_before_it) {
  start();
  EXPECT_EQ(make(), "");
  save(state(5));
  states->full = true;
  const auto refused = save(state(6));
  EXPECT_EQ(refused.path, "");
  EXPECT_NE(refused.error.find(full_disk), std::string::npos) << refused.error;
  EXPECT_EQ(goes_back(), 5u);
  auto weights = state(7);
  weights.what = kept_kind::weights;
  EXPECT_NE(save(weights).error.find(full_disk), std::string::npos);
  states->full = false;
  EXPECT_EQ(save(state(7)).error, "");
  EXPECT_EQ(goes_back(), 7u);
}

TEST_F(memory_states_test, only_weights_with_values_have_a_hash) {
  start();
  EXPECT_EQ(make(), "");
  store_effect weights{kept_kind::weights, 9, initial_weights(*plan().job, *dev)};
  EXPECT_EQ(save(weights).sha256, weights_sha256(weights.named));
  for (auto& [name, t] : weights.named) t = tensor::declare(t.dims(), t.type());
  const auto kept = save(weights);
  EXPECT_EQ(kept.sha256, "");
  EXPECT_EQ(kept.error, "");
}

// The daemon was killed: the next one knows of the job, and of its checkpoint, from the journal.
TEST_F(memory_states_test, a_job_continues_when_its_daemon_is_restarted) {
  start();
  EXPECT_EQ(make(), "");
  const auto kept = save(state(5)).path;
  node.reset();

  job = 0x20007;
  unfinished_job u;
  u.number = 7;
  u.kept = kept;
  start({{job, u}});
  EXPECT_EQ(make(5), "");
  ASSERT_TRUE(host.spawned && host.spawned->before);
  EXPECT_EQ(host.spawned->first_step, 5u);
  EXPECT_EQ(goes_back(), 5u);
  const auto next = save(state(6)).path;
  EXPECT_EQ(next.substr(0, next.rfind('/')), kept.substr(0, kept.rfind('/'))) << "in the folder of the checkpoints before it";

  job = 0x30007;
  u.kept = "nowhere/checkpoint-1-step-5.safetensors";
  start({{job, u}});
  EXPECT_EQ(make(5), "nowhere/checkpoint-1-step-5.safetensors: this machine has no such checkpoint");
}

TEST_F(memory_states_test, a_job_that_resumes_takes_the_newest_checkpoint_of_its_name_and_owner) {
  start();
  EXPECT_EQ(make(), "");
  save(state(5));
  save(state(8));
  node.reset();

  job = 0x10008;
  set = {"checkpoint.resume=\"auto\""};
  const checker checks(place_of(cluster, "n1"), nullptr, states);
  check_text asked;
  asked.job = job;
  asked.what = small_job(set);
  asked.owner = "bob";
  EXPECT_FALSE(checks.check(asked).found) << "of another owner";
  asked.owner = "alice";
  const auto c = checks.check(asked);
  ASSERT_TRUE(c.messages.empty()) << c.messages.front();
  ASSERT_TRUE(c.found);
  EXPECT_EQ(c.from, 8u);
  start();
  EXPECT_EQ(make(8), "");
  EXPECT_EQ(host.spawned->first_step, 8u);
  node->drop(job);
  EXPECT_FALSE(states->has_given(job));
}

}  // namespace
}  // namespace troupe::executor_test
