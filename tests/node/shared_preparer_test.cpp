// Plans that simulated nodes of one process share (runtime/node/executor/shared_preparer.hpp).
#include "runtime/node/executor/shared_preparer.hpp"
#include "runtime/job/copy.hpp"

#include <gtest/gtest.h>

#include "runtime/job/coarse.hpp"
#include "tests/error_text.hpp"
#include "tests/node/executor_support.hpp"

namespace troupe::executor_test {
namespace {

using namespace control;

std::shared_ptr<shared_preparer> preparer_of(const cluster_spec& c, shared_preparer::change then = {}) {
  return std::make_shared<shared_preparer>(std::make_shared<node_preparer>(place_of(c, "n1")), std::move(then));
}

made_plan made(const expected<made_plan, diagnostics>& p) {
  if (p) return *p;
  ADD_FAILURE() << first_of(p.error(), "no plan").text;
  return {};
}

amendments without(const std::string& node) {
  amendments a;
  a.without = {node};
  return a;
}

TEST(shared_preparer, makes_each_plan_once_for_all_nodes) {
  const auto c = cluster_of(3);
  const auto plans = preparer_of(c);
  const auto one = made(plans->first(7, small_job())), two = made(plans->first(7, small_job()));
  EXPECT_EQ(one.job, two.job);
  EXPECT_EQ(one.job->id, 7u);
  EXPECT_EQ(one.hash, plan_hash(one.job->plan));
  EXPECT_EQ(plans->made(), 1u);
  EXPECT_NE(made(plans->first(8, small_job())).job, one.job) << "another job";
  EXPECT_NE(made(plans->first(7, small_job({"job.seed=8"}))).job, one.job);
  EXPECT_EQ(plans->made(), 3u);

  const auto next = made(plans->again(one.job, without("n2")));
  EXPECT_EQ(made(plans->again(one.job, without("n2"))).job, next.job);
  EXPECT_NE(next.hash, one.hash);
  EXPECT_NE(made(plans->again(one.job, without("n3"))).job, next.job);
  EXPECT_EQ(plans->made(), 5u);
}

TEST(shared_preparer, gives_all_nodes_without_state_one_plan_that_continues_at_a_step) {
  const auto c = cluster_of(2);
  const auto plans = preparer_of(c);
  const auto first = made(plans->first(7, small_job())).job;
  const auto from_5 = plans->at_step(first, 5);
  EXPECT_EQ(plans->at_step(first, 5), from_5);
  EXPECT_NE(plans->at_step(first, 6), from_5);
  EXPECT_TRUE(from_5->continued);
  EXPECT_EQ(from_5->first_step, 5u);
  EXPECT_FALSE(first->continued);
}

TEST(shared_preparer, a_copy_of_a_shared_plan_is_independent) {
  const auto c = cluster_of(2);
  const auto plans = preparer_of(c);
  auto shared = made(plans->first(7, small_job())).job;
  const auto own = copy_of(*shared);
  own->spec.layers.front().name = "renamed";
  own->first_step = 3;
  for (std::size_t l = 0; l < own->graph.layers.size(); ++l) EXPECT_EQ(own->graph.layers[l].spec, &own->spec.layers[l]);
  EXPECT_EQ(shared->spec.layers.front().name, "conv1");
  EXPECT_EQ(shared->graph.layers.front().spec->name, "conv1");
  EXPECT_EQ(shared->first_step, 0u);
}

TEST(shared_preparer, changes_the_first_plan_and_those_after_it) {
  const auto c = cluster_of(3);
  const auto coarse = [](const prepared_job& j) { return make_coarse(j, 2, j.nodes); };
  const auto plans = preparer_of(c, coarse);
  const auto first = made(plans->first(7, small_job()));
  EXPECT_EQ(first.job->graph.layers.front().name, "bucket0");
  EXPECT_EQ(first.hash, plan_hash(first.job->plan));

  const auto next = made(plans->again(first.job, without("n2")));
  const auto full = made(node_preparer(place_of(c, "n1")).first(7, small_job())).job;
  const auto amended = prepare_again(full, without("n2"));
  ASSERT_TRUE(amended);
  const auto wanted = coarse(**amended);
  ASSERT_TRUE(wanted);
  EXPECT_EQ(next.hash, plan_hash((*wanted)->plan)) << "as if the whole job had been amended, and then changed";
  EXPECT_EQ(next.job->id, 7u);
}

TEST(shared_preparer, keeps_errors) {
  const auto c = cluster_of(2);
  const auto plans = preparer_of(c);
  const auto bad = small_job({"data.batch=0"});
  EXPECT_FALSE(plans->first(7, bad));
  EXPECT_FALSE(plans->first(7, bad));
  EXPECT_EQ(plans->made(), 1u);
}

TEST(shared_preparer, gives_up_old_plans_that_no_node_has) {
  const auto c = cluster_of(2);
  const auto plans = preparer_of(c);
  const auto held = made(plans->first(1, small_job())).job;
  static_cast<void>(plans->first(2, small_job()));
  for (std::uint32_t job = 3; job < 20; ++job) static_cast<void>(plans->first(job, small_job()));
  const auto before = plans->made();
  EXPECT_EQ(made(plans->first(1, small_job())).job, held);
  EXPECT_EQ(plans->made(), before);
  static_cast<void>(plans->first(2, small_job()));
  EXPECT_EQ(plans->made(), before + 1);
}

TEST(job_executor, nodes_with_one_preparer_host_one_plan) {
  const auto c = cluster_of(3);
  const auto plans = preparer_of(c);
  prepare p;
  p.job = 7;
  p.what = small_job();
  p.plan_hash = made(plans->first(7, small_job())).hash;
  p.continued = true;
  p.from = 4;
  std::vector<noting_host> hosts(2);
  std::vector<std::unique_ptr<job_executor>> nodes;
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    job_executor::place at{place_of(c, "n" + std::to_string(i + 2)), hosts[i], hosts[i]};
    at.plans = plans;
    at.reserves_memory = false;
    nodes.push_back(std::make_unique<job_executor>(std::move(at)));
    EXPECT_EQ(test::error_text(nodes.back()->make(p)), "");
  }
  ASSERT_TRUE(hosts[0].spawned);
  EXPECT_EQ(hosts[0].spawned, hosts[1].spawned);
  EXPECT_EQ(hosts[0].spawned->first_step, 4u);

  revise r;
  r.what = p;
  r.plan_generation = 1;
  r.without = {"n3"};
  r.what.plan_hash = made(plans->again(made(plans->first(7, small_job())).job, without("n3"))).hash;
  EXPECT_EQ(test::error_text(nodes[0]->revise(r)), "");
  swap s;
  s.job = 7;
  s.plan_generation = 1;
  s.step = 9;
  EXPECT_EQ(test::error_text(nodes[0]->swap(s)), "");
  EXPECT_EQ(hosts[0].spawned->first_step, 9u);
  EXPECT_EQ(hosts[1].spawned->first_step, 4u);
  EXPECT_EQ(plans->made(), 2u);
}

}  // namespace
}  // namespace troupe::executor_test
