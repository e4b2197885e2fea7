// The coordinator routes each kind of message to its object, and turns the results into messages
// and events.
#include "runtime/coordinator/coordinator.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <map>

#include "ops/device.hpp"
#include "tests/runtime/model/graph_fixture.hpp"

namespace troupe {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// The coordinator of a job of 20 steps for one worker on one node, with four packets a step.
struct seat {
  job_spec job;
  std::shared_ptr<model_graph> graph;
  std::shared_ptr<job_plan> plan;
  std::unique_ptr<coordinator> role;
  effects out;
  time_point now{};

  explicit seat(std::function<void(coordinator_config&)> change = {}, job_spec j = graph_test::small_net()) : job(std::move(j)) {
    graph = std::make_shared<model_graph>(graph_test::try_graph(job).value());
    plan = std::make_shared<job_plan>(make_plan(job, *graph, graph_test::nodes_named({"n1"}), {{}, true, 1, 0}).value());
    coordinator_config c;
    c.graph = graph;
    c.plan = plan;
    c.last_step = 20;
    c.eval_every = 10;
    c.eval_packets = 1;
    c.window = 3;
    if (change) change(c);
    role = std::make_unique<coordinator>(std::move(c));
  }
  // Passes a message to the role; `out` then has its effects.
  void deliver(message m, role_id from = no_role, std::function<void(header&)> with = {}) {
    envelope e;
    e.h.src = from;
    e.h.dst = role_id{0};
    e.body = std::move(m);
    if (with) with(e.h);
    out.clear();
    role->on(e, now, out);
  }
  void say(command c) { deliver(std::move(c)); }
  // Reports all packets of a step.
  void step(std::uint64_t s) {
    for (std::uint32_t p = 0; p < plan->packets; ++p)
      deliver(report{{{"loss", 1.5}}, 2}, named("worker0/loss"), [&](header& h) {
        h.step = s;
        h.packet = p;
        h.phase = static_cast<std::uint8_t>(phase::train);
      });
  }
  // Answers the collection, with `of_param_1` for the blocks of parameter 1 and 1 for the others,
  // and joins them.
  void answer_collection(double of_param_1 = 1) {
    const auto dev = make_cpu_device();
    const auto request = sent<collect>().at(0).second.request;
    for (const auto& b : plan->blocks) {
      auto value = tensor::allocate(*dev, {b.count}, dtype::f32);
      dev->fill(b.param == 1 ? of_param_1 : 1.0, value);
      deliver(state{request, b.id, value, {}}, b.shard);
    }
    const auto task = std::get<run_effect>(out.list().at(0));
    task_context c{*dev};
    task.work(c);
    deliver(finished{task.token});
  }
  std::vector<std::string> stored() {
    std::vector<std::string> list;
    for (auto& e : out.list())
      if (auto* x = std::get_if<store_effect>(&e)) list.push_back(name_of(x->what));
    return list;
  }
  role_id named(const std::string& name) const {
    for (const auto& r : plan->roles)
      if (r.name == name) return r.id;
    ADD_FAILURE() << "no role " << name;
    return no_role;
  }
  std::vector<std::string> events() {
    std::vector<std::string> list;
    for (auto& e : out.list())
      if (auto* announced = std::get_if<event_effect>(&e))
        list.push_back(std::string(name_of(*announced).name) + " " + std::to_string(announced->step));
    return list;
  }
  std::string text() {
    for (auto& e : out.list())
      if (auto* announced = std::get_if<event_effect>(&e)) return message_of(*announced);
    return {};
  }
  // The messages of one type that were sent.
  template <class M>
  std::vector<std::pair<header, M>> sent() {
    std::vector<std::pair<header, M>> list;
    for (auto& e : out.list())
      if (auto* s = std::get_if<send_effect>(&e))
        if (auto* m = std::get_if<M>(&s->e.body)) list.emplace_back(s->e.h, *m);
    return list;
  }
  std::vector<std::uint64_t> granted() {
    std::vector<std::uint64_t> list;
    for (const auto& [h, g] : sent<grant>()) list.push_back(g.until);
    return list;
  }
};

TEST(coordinator, starts_shards_and_grants_steps_a_window_ahead) {
  seat s;
  s.deliver(start{});
  EXPECT_EQ(s.sent<start>().size(), s.plan->shards.size());
  EXPECT_THAT(s.granted(), ElementsAre(3u));
  s.step(0);
  EXPECT_THAT(s.events(), ElementsAre("step 1"));
  EXPECT_THAT(s.granted(), ElementsAre(4u));
  s.deliver(start{});
  EXPECT_THAT(s.out.list(), IsEmpty()) << "start is handled once";
}

TEST(coordinator, reports_the_mean_rate_when_steps_complete_in_bursts) {
  seat s([](coordinator_config& c) { c.batch = 10; });
  s.deliver(start{});
  for (std::uint64_t k = 0; k < 8; ++k) {
    s.now += std::chrono::milliseconds(k % 2 == 0 ? 1 : 199);
    s.step(k);
  }
  step_event last;
  for (auto& e : s.out.list())
    if (auto* announced = std::get_if<event_effect>(&e)) last = *announced->as<step_event>();
  EXPECT_NEAR(last.examples_per_s, 100, 1e-6) << "80 examples in 0.8 s; the last step alone had 50 a second";
  EXPECT_NEAR(last.step_seconds, 0.199, 1e-9);
}

TEST(coordinator, evaluates_at_a_boundary_and_continues) {
  seat s;
  s.deliver(start{});
  for (std::uint64_t k = 0; k < 10; ++k) s.step(k);
  ASSERT_EQ(s.sent<evaluate>().size(), 1u);
  EXPECT_EQ(s.sent<evaluate>()[0].second.round, 1u);
  EXPECT_EQ(s.sent<evaluate>()[0].first.version, 10u);
  const auto tell = [&](const char* stage, const char* name, double value) {
    s.deliver(report{{{name, value}}, 2}, s.named(stage), [](header& h) {
      h.step = 1;
      h.phase = static_cast<std::uint8_t>(phase::test);
    });
  };
  tell("worker0/loss", "loss", 0.5);
  EXPECT_THAT(s.events(), IsEmpty());
  EXPECT_THAT(s.role->status().waits_for, HasSubstr("1 reports of the evaluation"));
  tell("worker0/accuracy", "accuracy", 0.75);
  EXPECT_THAT(s.events(), ElementsAre("eval 10"));
  EXPECT_THAT(s.granted(), ElementsAre(13u));
}

TEST(coordinator, drops_reports_whose_weights_are_malformed) {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN(), infinite = std::numeric_limits<double>::infinity();
  seat s;
  s.deliver(start{});
  for (std::uint64_t k = 0; k < 10; ++k) s.step(k);
  const auto tell = [&](const char* layer, std::vector<double> weights) {
    s.deliver(report{{{layer, 0.5}}, 2, std::move(weights)}, s.named(std::string("worker0/") + layer), [](header& h) {
      h.step = 1;
      h.phase = static_cast<std::uint8_t>(phase::test);
    });
  };
  tell("accuracy", {2});
  std::uint64_t malformed = 0;
  for (const auto& wrong : std::vector<std::vector<double>>{{nan}, {infinite}, {-1}, {1, 1}}) {
    tell("loss", wrong);
    EXPECT_THAT(s.events(), IsEmpty());
    EXPECT_EQ(s.role->dropped()[drop_reason::malformed], ++malformed);
  }
  tell("loss", {2});
  EXPECT_THAT(s.events(), ElementsAre("eval 10"));
}

TEST(coordinator, an_evaluation_of_which_no_label_counts_is_not_the_best) {
  auto without_accuracy = graph_test::small_net();
  without_accuracy.layers.erase(without_accuracy.layers.begin() + 3);
  seat s([](coordinator_config& c) { c.keeps_best = true; }, std::move(without_accuracy));
  s.deliver(start{});
  for (std::uint64_t k = 0; k < 10; ++k) s.step(k);
  s.deliver(report{{{"loss", 0}}, 2, {0}}, s.named("worker0/loss"), [](header& h) {
    h.step = 1;
    h.phase = static_cast<std::uint8_t>(phase::test);
  });
  EXPECT_THAT(s.events(), ElementsAre("eval 10"));
  EXPECT_THAT(s.sent<collect>(), IsEmpty());
  EXPECT_THAT(s.granted(), ElementsAre(13u));
}

TEST(coordinator, pauses_after_the_granted_steps_and_resumes) {
  seat s;
  s.deliver(start{});
  s.say({pause_command{}});
  for (std::uint64_t k = 0; k < 2; ++k) s.step(k);
  EXPECT_THAT(s.granted(), IsEmpty());
  s.step(2);
  EXPECT_THAT(s.events(), ElementsAre("step 3", "paused 3"));
  EXPECT_EQ(s.role->status().waits_for, "resume");
  s.say({resume_command{}});
  EXPECT_THAT(s.events(), ElementsAre("resumed 3"));
  EXPECT_THAT(s.granted(), ElementsAre(6u));
}

// Events and the commands that they answer.
using answers = std::vector<std::pair<std::string, std::vector<command_id>>>;
answers answers_in(seat& s) {
  answers list;
  for (auto& e : s.out.list())
    if (auto* announced = std::get_if<event_effect>(&e))
      if (!announced->answers.empty()) list.emplace_back(name_of(*announced).name, announced->answers);
  return list;
}

TEST(coordinator, answers_each_command_by_its_id_once) {
  seat s;
  s.deliver(start{});
  s.say({resume_command{}, 1});
  EXPECT_EQ(answers_in(s), (answers{{"unchanged", {1}}})) << "it is not paused";
  for (const command_id id : {2, 3}) s.say({pause_command{}, id});
  s.say({resume_command{}, 4});
  EXPECT_EQ(answers_in(s), (answers{{"refused", {2, 3}}, {"unchanged", {4}}})) << "the pause is withdrawn";
  s.say({set_command{"train.dynamics.lr", 0.5}, 5});
  EXPECT_EQ(answers_in(s), (answers{{"set", {5}}}));
  s.say({mode_command{{"ssp", {}}}, 6});  // no other mode is known
  EXPECT_EQ(answers_in(s), (answers{{"refused", {6}}}));
  for (const command_id id : {7, 8}) s.say({pause_command{}, id});
  for (std::uint64_t k = 0; k < 3; ++k) s.step(k);
  EXPECT_EQ(answers_in(s), (answers{{"paused", {7, 8}}}));
  s.say({pause_command{}, 9});
  EXPECT_EQ(answers_in(s), (answers{{"unchanged", {9}}}));
  s.say({resume_command{}, 10});
  EXPECT_EQ(answers_in(s), (answers{{"resumed", {10}}}));
}

TEST(coordinator, reports_that_it_begins_paused) {
  seat s([](coordinator_config& c) {
    c.before = std::make_shared<handover>();
    c.before->paused = true;
    for (const auto& p : c.graph->params) c.before->named.emplace_back(p.full_name, tensor{});
  });
  s.deliver(start{});
  EXPECT_THAT(s.events(), ElementsAre("paused 0"));
  EXPECT_THAT(s.granted(), IsEmpty());
}

TEST(coordinator, refuses_an_evaluation_without_test_data) {
  seat s([](coordinator_config& c) { c.eval_packets = 0; });
  s.deliver(start{});
  s.say({eval_command{}, 1});
  EXPECT_EQ(answers_in(s), (answers{{"refused", {1}}}));
}

TEST(coordinator, collects_and_stores_a_stopped_job_and_ends_it) {
  seat s;
  s.deliver(start{});
  s.say({stop_command{}});
  for (std::uint64_t k = 0; k < 3; ++k) s.step(k);
  ASSERT_EQ(s.sent<collect>().size(), s.plan->shards.size());
  s.answer_collection();
  EXPECT_THAT(s.stored(), ElementsAre("checkpoint", "weights"));
  EXPECT_THAT(s.events(), ElementsAre("checkpoint 3", "done 3"));
  s.say({pause_command{}});
  EXPECT_THAT(s.out.list(), IsEmpty()) << "messages after the end are ignored";
}

// So that a job that is done can be extended.
TEST(coordinator, stores_a_checkpoint_of_the_last_step_when_the_job_has_an_interval) {
  for (const auto& interval : {checkpoint_interval{}, checkpoint_interval{2, 0}, checkpoint_interval{0, 300}}) {
    seat s([&](coordinator_config& c) {
      c.last_step = 1;
      c.eval_every = c.eval_packets = 0;
      c.checkpoints = interval;
    });
    s.deliver(start{});
    s.step(0);
    ASSERT_EQ(s.sent<collect>().size(), s.plan->shards.size());
    s.answer_collection();
    if (interval.any()) {
      EXPECT_THAT(s.stored(), ElementsAre("checkpoint", "weights"));
      EXPECT_THAT(s.events(), ElementsAre("checkpoint 1", "done 1"));
    } else {
      EXPECT_THAT(s.stored(), ElementsAre("weights"));
      EXPECT_THAT(s.events(), ElementsAre("done 1"));
    }
  }
}

TEST(coordinator, makes_a_checkpoint_once_per_interval) {
  using namespace std::chrono_literals;
  seat s([](coordinator_config& c) {
    c.last_step = c.eval_every = 0;
    c.checkpoints.seconds = 60;
  });
  s.deliver(start{});
  s.now += 59s;
  s.step(0);
  EXPECT_THAT(s.granted(), ElementsAre(4u));
  s.now += 2s;
  s.step(1);
  EXPECT_THAT(s.granted(), IsEmpty()) << "only the granted steps are finished";
  s.now += 61s;
  s.step(2);
  s.step(3);
  EXPECT_EQ(s.sent<collect>().size(), s.plan->shards.size());
  s.answer_collection();
  EXPECT_THAT(s.events(), ElementsAre("checkpoint 4"));
  EXPECT_THAT(s.granted(), ElementsAre(7u));
  s.now += 59s;
  s.step(4);
  EXPECT_THAT(s.granted(), ElementsAre(8u)) << "the interval counts from the last checkpoint";
}

// Weights that are not finite are stored neither as a checkpoint nor as the result.
TEST(coordinator, weights_that_are_not_finite_end_the_job_and_are_not_stored) {
  for (const auto& given : {command{stop_command{}}, command{checkpoint_command{}}}) {
    const auto* word = name_of(given);
    seat s;
    s.deliver(start{});
    s.say(given);
    for (std::uint64_t k = 0; k < 3; ++k) s.step(k);
    ASSERT_EQ(s.sent<collect>().size(), s.plan->shards.size()) << word;
    s.answer_collection(std::numeric_limits<double>::quiet_NaN());
    for (auto& e : s.out.list()) EXPECT_FALSE(std::holds_alternative<store_effect>(e)) << word;
    EXPECT_THAT(s.events(), ElementsAre("error 3")) << word;
    EXPECT_EQ(s.text(), "'a.bias' is not finite at step 3: nothing is stored") << word;
  }
}

// The accuracy of an evaluation may be the best although a weight is not finite. The job goes on:
// keeping the best weights does not disturb it.
TEST(coordinator, does_not_store_best_weights_that_are_not_finite) {
  for (const bool finite : {true, false}) {
    seat s([](coordinator_config& c) { c.keeps_best = true; });
    s.deliver(start{});
    for (std::uint64_t k = 0; k < 10; ++k) s.step(k);
    for (const char* layer : {"loss", "accuracy"})
      s.deliver(report{{{layer, 0.5}}, 2}, s.named(std::string("worker0/") + layer), [](header& h) {
        h.step = 1;
        h.phase = static_cast<std::uint8_t>(phase::test);
      });
    EXPECT_THAT(s.granted(), IsEmpty()) << "the weights of the evaluation are collected first";
    ASSERT_EQ(s.sent<collect>().size(), s.plan->shards.size());
    EXPECT_EQ(s.sent<collect>()[0].first.version, 10u);
    EXPECT_FALSE(s.sent<collect>()[0].second.with_state);
    s.answer_collection(finite ? 1.0 : std::numeric_limits<double>::quiet_NaN());
    std::size_t stores = 0;
    for (auto& e : s.out.list()) stores += std::holds_alternative<store_effect>(e) ? 1 : 0;
    EXPECT_EQ(stores, finite ? 1u : 0u);
    EXPECT_THAT(s.events(), ElementsAre(finite ? "best 10" : "alert 10"));
    EXPECT_THAT(s.granted(), ElementsAre(13u)) << "training continues";
  }
}

TEST(coordinator, sends_settings_to_shards_and_workers) {
  seat s;
  s.deliver(start{});
  s.say({set_command{"train.lr", 0.5}});
  EXPECT_EQ(s.sent<set_value>().size(), s.plan->shards.size() + s.plan->workers.size());
  EXPECT_EQ(s.sent<set_value>()[0].second.from, 3u);
  EXPECT_THAT(s.events(), ElementsAre("set 3"));
}

TEST(coordinator, flushes_before_it_switches_the_mode) {
  seat s([](coordinator_config& c) {
    c.find_mode = [](const auto& name, const auto&) { return mode_facts{name, {}, false, 0, false}; };
  });
  s.deliver(start{});
  s.say({mode_command{{"ssp"}}});
  s.say({mode_command{{"easgd"}}});
  EXPECT_THAT(s.text(), HasSubstr("a switch to mode 'ssp' is under way"));
  for (std::uint64_t k = 0; k < 3; ++k) s.step(k);
  ASSERT_EQ(s.sent<flush>().size(), s.plan->workers.size());
  const auto round = s.sent<flush>()[0].second.round;
  for (auto shard : s.plan->shards) s.deliver(ready{ready::what_of::flushed, round}, shard);
  EXPECT_EQ(s.sent<adopt>().size(), s.plan->workers.size() + s.plan->shards.size());
  for (auto w : s.plan->workers) s.deliver(ready{ready::what_of::adopted}, w, [](header& h) { h.mode_epoch = 1; });
  EXPECT_THAT(s.events(), ElementsAre("mode 3"));
  EXPECT_EQ(s.text(), "ssp");
  EXPECT_THAT(s.granted(), ElementsAre(6u));
}

TEST(coordinator, refuses_commands_that_it_cannot_execute) {
  seat s;
  s.deliver(start{});
  s.say({kill_command{}});
  EXPECT_EQ(s.text(), "unknown command 'kill'");
  s.say({mode_command{{"ssp"}}});
  EXPECT_EQ(s.text(), "this job's mode is fixed");
  s.say({set_option_command{"staleness", "3"}});
  EXPECT_EQ(s.text(), "this job's mode is fixed");
  s.say({handover_command{mode_choice::of("ssp staleness=3")}});
  EXPECT_EQ(s.text(), "the mode has changed meanwhile (now bsp): repeat the command");
  s.say({handover_command{mode_choice::of("bsp")}});
  EXPECT_THAT(s.events(), IsEmpty());
}

TEST(coordinator, a_lost_node_ends_the_job_and_the_error_names_its_roles) {
  seat s;
  s.deliver(start{});
  s.deliver(peer_down{"n1", "no answer"});
  EXPECT_THAT(s.events(), ElementsAre("error 0"));
  EXPECT_THAT(s.text(), HasSubstr("node n1 is lost: no answer; it hosted coordinator"));
  s.step(0);
  EXPECT_THAT(s.out.list(), IsEmpty());
}

}  // namespace
}  // namespace troupe
