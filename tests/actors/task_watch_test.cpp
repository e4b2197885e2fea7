// Tests of the watch for overlong tasks, and of its effect on embedded runs.
#include "runtime/cluster/supervision/task_watch.hpp"

#include <thread>

#include "runtime/stage/stage.hpp"
#include "tests/actors/embedded_support.hpp"
#include "tests/actors/helpers.hpp"

namespace troupe::testing_embedded {
namespace {

using namespace std::chrono_literals;
using instant = task_watch::instant;

watched_task forward_of(std::uint64_t serial, std::string node = "n2") {
  return {std::move(node), "worker1/conv2", {"forward", serial, true, 12, 3, 0.5}};
}

// Looks `times` times at the task, once a second. Returns all overlong tasks.
std::vector<overlong_task> looks(task_watch& w, instant& now, int times, const watched_task& at,
                                 std::optional<overlong_task>* hung = nullptr) {
  std::vector<overlong_task> all;
  for (int i = 0; i < times; ++i, now += 1s) {
    auto found = w.look({at}, now);
    EXPECT_TRUE(found.runs);
    all.insert(all.end(), found.overlong.begin(), found.overlong.end());
    if (hung && found.hung) *hung = found.hung;
  }
  return all;
}

TEST(task_watch, reports_a_task_once_when_it_exceeds_the_watchdog_limit) {
  task_watch w({10s, 60s});
  auto now = instant{} + 5s;
  EXPECT_TRUE(looks(w, now, 10, forward_of(7)).empty());
  const auto named = looks(w, now, 30, forward_of(7));
  ASSERT_EQ(named.size(), 1u);
  EXPECT_EQ(named[0].text(), "the task 'forward' of worker1/conv2 on node n2, packet 3 of step 12, has been running for 10 s");
  EXPECT_EQ(named[0].layer(), "conv2");
  EXPECT_EQ(looks(w, now, 12, forward_of(8)).size(), 1u) << "another task is counted anew";
}

TEST(task_watch, reports_a_task_that_takes_many_times_its_usual_time) {
  task_watch w({60s, 600s, 20, 2s});
  auto now = instant{} + 5s;
  auto usual = forward_of(7);
  usual.task.usual = 0.4;
  EXPECT_TRUE(looks(w, now, 8, usual).empty()) << "8 s are 20 times its usual time, and it was seen for 7";
  const auto named = looks(w, now, 30, usual);
  ASSERT_EQ(named.size(), 1u);
  EXPECT_EQ(named[0].seconds, 8);
  EXPECT_NE(named[0].text().find("has been running for 8 s; usually it takes 400 ms"), std::string::npos) << named[0].text();
  auto quick = forward_of(8);
  quick.task.usual = 0.001;
  EXPECT_TRUE(looks(w, now, 2, quick).empty()) << "less than 2 s is nothing that a user must know";
  EXPECT_EQ(looks(w, now, 2, quick).size(), 1u);
  auto slow = forward_of(9);
  slow.task.usual = 5;
  EXPECT_TRUE(looks(w, now, 60, slow).empty()) << "its tasks always take 5 s";
}

TEST(task_watch, reports_a_task_as_hung_when_it_exceeds_the_give_up_limit) {
  task_watch w({10s, 60s});
  auto now = instant{} + 5s;
  std::optional<overlong_task> hung;
  looks(w, now, 60, forward_of(7), &hung);
  EXPECT_FALSE(hung);
  looks(w, now, 1, forward_of(7), &hung);
  ASSERT_TRUE(hung);
  EXPECT_EQ(hung->what.node, "n2");
  EXPECT_EQ(hung->seconds, 60);
}

TEST(task_watch, does_not_count_time_while_the_process_was_stopped) {
  task_watch w({10s, 60s});
  auto now = instant{} + 5s;
  looks(w, now, 2, forward_of(7));
  now += 1h;
  EXPECT_TRUE(w.look({forward_of(7)}, now).overlong.empty());
}

TEST(task_watch, tasks_with_one_serial_on_two_nodes_are_counted_separately) {
  task_watch w({10s, 60s});
  auto now = instant{} + 5s;
  looks(w, now, 9, forward_of(7));
  looks(w, now, 9, forward_of(7, "n3"));
  EXPECT_TRUE(looks(w, now, 9, forward_of(7)).empty()) << "n2 did not run it in the meantime";
}

TEST(task_watch, reports_no_running_task_when_no_role_has_one) {
  task_watch w;
  EXPECT_FALSE(w.look({}, instant{} + 5s).runs);
  EXPECT_FALSE(w.look({{"n1", "tester", {}}}, instant{} + 6s).runs);
}

// --- embedded

testing_actors::gate* held_in = nullptr;
std::chrono::hours held_for{0};  // 0: `patience`

// A stage whose task of step 3 waits at a gate.
struct waiting_stage final : stage {
  using stage::stage;
  void begin_forward(slot& s, effects& out) override {
    effects mine;
    stage::begin_forward(s, mine);
    for (auto& e : mine.list()) {
      if (auto* r = std::get_if<run_effect>(&e); r && s.h.step == 3) {
        r->work = [inner = std::move(r->work)](task_context& c) {
          held_in->wait(held_for > 0h ? std::chrono::nanoseconds(held_for) : testing_actors::patience);
          inner(c);
        };
      }
    }
    for (auto& e : mine.list()) out.list().push_back(std::move(e));
  }
};

std::shared_ptr<prepared_job> job_that_waits(const overrides& set = {}) {
  auto j = job_of(lenet_like(), set);
  auto all = std::make_shared<tables>(stock_tables());
  all->stages.add("dropout", {[](stage_config c) { return std::make_unique<waiting_stage>(std::move(c)); }, {}});
  j->all = all;
  return j;
}

// The task runs for twice the stall limit: it is reported, it is no stall, and the weights are
// those of a run without the delay.
void is_named_and_goes_on(const overrides& set) {
  testing_actors::gate open;
  held_in = &open;
  embedded_options o;
  o.stall_after = 2s;
  o.tasks = {4s, 1h};
  std::vector<event_effect> alerts;
  o.on_event = [&](const event_effect& e) {
    if (!e.is<slow_task_event>()) return;
    alerts.push_back(e);
    open.arrive();
  };
  const auto j = job_that_waits(set);
  const auto r = embedded(j, std::move(o));
  EXPECT_TRUE(r.ok) << r.error;
  ASSERT_EQ(alerts.size(), 1u);
  EXPECT_EQ(message_of(alerts[0]).find("the task 'forward' of worker0/drop1, packet "), 0u) << message_of(alerts[0]);
  EXPECT_NE(message_of(alerts[0]).find(" of step 3, has been running for "), std::string::npos) << message_of(alerts[0]);
  EXPECT_EQ(r.weights_sha256, plain_hash(j, 20));
}

TEST(task_watch, embedded_run_reports_a_long_task_and_does_not_count_it_as_a_stall) { is_named_and_goes_on({}); }
TEST(task_watch, embedded_run_reports_long_tasks_of_sub_solvers) { is_named_and_goes_on({"pipeline.sub_solvers=2"}); }

TEST(task_watch, embedded_run_ends_when_a_task_does_not_end) {
  held_in = new testing_actors::gate;  // never opened: the thread waits there while this process exits
  held_for = 1h;
  embedded_options o;
  o.tasks = {1s, 3s};
  const auto r = embedded(job_that_waits(), std::move(o));
  EXPECT_FALSE(r.ok);
  EXPECT_TRUE(r.hung);
  EXPECT_EQ(r.where, "worker0/drop1");
  EXPECT_NE(r.error.find("is considered hung"), std::string::npos) << r.error;
  held_for = 0h;
}

}  // namespace
}  // namespace troupe::testing_embedded
