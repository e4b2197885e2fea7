// Invariant of the final accuracy: the accuracy that a job reports at its end is that of the
// written weights, in every mode, for any number of workers and any evaluation interval, also if
// the first worker ends the job.
#include <map>
#include <random>

#include "tests/sim/mode_run.hpp"
#include "tests/sim/written_weights.hpp"

namespace troupe::testing {
namespace {

struct mode_of_a_job {
  const char* name;
  text_options options;
};

const mode_of_a_job modes[] = {{"bsp", {}},
                               {"ssp", {{"staleness", "2"}}},
                               {"ssp", {{"staleness", "inf"}}},
                               {"downpour", {}},
                               {"downpour", {{"n_push", "3"}, {"n_fetch", "2"}}},
                               {"easgd", {{"tau", "3"}, {"alpha", "0.4"}}},
                               {"easgd", {{"tau", "5"}, {"alpha", "0.4"}, {"variant", "sync"}}},
                               {"eamsgd", {{"tau", "4"}}},
                               {"group_sync", {{"sync_freq", "4"}}},
                               {"gossip", {{"every", "5"}}},
                               {"hogwild", {{"sync_freq", "3"}}},
                               {"sandblaster", {}}};

struct drawn_end {
  std::shared_ptr<prepared_job> job;
  std::string about;
};

drawn_end draw_end(std::uint64_t seed) {
  std::mt19937_64 g(seed * 48271 + 11);
  const auto below = [&](std::uint64_t n) { return static_cast<std::int64_t>(g() % n); };
  const auto& m = modes[seed % std::size(modes)];
  const std::string name = m.name;
  shape_of_job s;
  s.packets = 4;
  s.rule = name == "eamsgd" ? "nesterov" : "momentum";
  s.steps = static_cast<std::uint64_t>(12 * (1 + below(3)));
  s.shards = static_cast<std::uint32_t>(1 + below(3));
  const std::int64_t intervals[] = {0, 1, 2, 3, 4, 5, 6, 7, 12, 100};
  s.eval_every = intervals[below(10)];
  auto spec = small_spec(s);
  std::erase_if(spec.layers, [](const layer_spec& l) { return l.name == "conv1" || l.name == "relu1" || l.name == "pool1"; });
  for (auto& l : spec.layers)
    for (auto& in : l.inputs)
      if (in == "pool1") in = "data";
  spec.train.lr = 0.1;
  spec.data.values.values["test_examples"] = std::int64_t{61};
  const bool groups = name == "downpour" || name == "group_sync" || name == "hogwild";
  const auto workers = 1 + below(4);
  (groups ? spec.topology.worker_groups : spec.topology.workers_per_group) = workers;
  if (name == "group_sync" || name == "hogwild") spec.topology.server_groups = workers;
  spec.train.finish.who = below(4) == 0 ? "any" : "all";
  const auto& specs = shared_tables()->modes.find(name)->specs;
  spec.train.sync = {name, options_from_text(m.options, specs), {}};
  std::vector<node_spec> nodes(static_cast<std::size_t>(workers));
  for (std::size_t i = 0; i < nodes.size(); ++i) nodes[i].name = "n" + std::to_string(i + 1);
  drawn_end d;
  d.about = "seed " + std::to_string(seed) + ", " + name + ", " + std::to_string(workers) + " workers, " + std::to_string(s.steps) +
            " steps, eval every " + std::to_string(s.eval_every) + ", who " + spec.train.finish.who;
  auto made = prepare_job(spec, shared_tables(), nodes);
  if (!made)
    d.about += made.error().front().to_string();
  else
    d.job = *made;
  return d;
}

TEST(laws_last_accuracy, equals_the_accuracy_of_the_written_weights) {
  const auto dev = make_cpu_device();
  std::map<std::string, std::uint64_t> rounds;
  for (const auto seed : law_seeds(240)) {
    const auto d = draw_end(seed);
    ASSERT_TRUE(d.job) << d.about;
    const auto got = run_in_world(d.job, draw_world(seed, 0, dev.get()));
    ASSERT_EQ(got.error(), "") << d.about;
    ASSERT_EQ(untrue_of_the_written(*d.job, got, dev.get()), "") << d.about;
    ++rounds[d.job->spec.train.sync.kind + " " + d.job->spec.train.finish.who];
    // The evaluation at the end is reported once.
    std::vector<std::uint64_t> at;
    for (const auto& e : got.events)
      if (e.is<eval_event>()) at.push_back(e.step);
    ASSERT_TRUE(std::is_sorted(at.begin(), at.end())) << d.about;
    ASSERT_EQ(std::adjacent_find(at.begin(), at.end()), at.end()) << d.about;
  }
  if (seeds(240) < 240) return;
  for (const auto& m : modes)
    for (const char* who : {"all", "any"}) EXPECT_GT(rounds[std::string(m.name) + " " + who], 0u) << m.name << " " << who;
}

// A `stop` command does not wait for an evaluation: the accuracy of older weights is not reported
// for the final ones.
TEST(laws_last_accuracy, is_not_reported_for_unevaluated_weights) {
  const auto dev = make_cpu_device();
  std::vector<node_spec> nodes(1);
  nodes[0].name = "n1";
  for (const std::string mode : {"bsp", "easgd"}) {
    auto spec = small_spec({.workers = 2, .steps = 1000, .eval_every = 6});
    spec.train.sync = {mode, options_from_text({}, shared_tables()->modes.find(mode)->specs), {}};
    auto made = prepare_job(spec, shared_tables(), nodes);
    ASSERT_TRUE(made);
    mode_run r{.job = *made, .config = draw_world(1, 0, dev.get())};
    r.on_event = [](sim::world& w, const event_effect& e) {
      if (!e.is<step_event>() || e.step != 8) return;
      envelope stop;
      stop.h.dst = role_id{0};
      stop.body = command{stop_command{}};
      w.inject(stop);
    };
    const auto got = run(r);
    ASSERT_EQ(got.violation, "");
    EXPECT_TRUE(last_of(got, "eval")) << mode;
    EXPECT_EQ(value_in(last_of(got, "done"), "test_accuracy"), std::nullopt) << mode;
  }
}

}  // namespace
}  // namespace troupe::testing
