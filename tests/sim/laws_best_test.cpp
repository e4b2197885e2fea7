// Invariants of the best weights (coordinator/best_weights.hpp), in every mode: the stored weights
// have the accuracy of their event, evaluated anew; stores are ever better, and the last of them
// has the highest accuracy of all evaluations; with `keeps_best` no weight changes.
#include <map>

#include "runtime/messages/best_evaluation.hpp"
#include "tests/sim/mode_checkers.hpp"
#include "tests/sim/mode_run.hpp"
#include "tests/sim/moving.hpp"
#include "tests/sim/written_weights.hpp"

namespace troupe::testing {
namespace {

struct best_mode {
  const char* name;
  text_options options;
};

const best_mode best_modes[] = {{"bsp", {}},
                                {"ssp", {{"staleness", "2"}}},
                                {"downpour", {{"n_push", "3"}, {"n_fetch", "2"}}},
                                {"easgd", {{"tau", "3"}, {"alpha", "0.4"}}},
                                {"group_sync", {{"sync_freq", "4"}}},
                                {"gossip", {{"every", "5"}}},
                                {"hogwild", {{"sync_freq", "3"}}},
                                {"sandblaster", {}}};

struct best_case {
  std::shared_ptr<prepared_job> job;
  std::string about;
};

best_case draw_best(std::uint64_t seed, bool keeps = true) {
  std::mt19937_64 g(seed * 69621 + 5);
  const auto below = [&](std::uint64_t n) { return static_cast<std::int64_t>(g() % n); };
  const auto& m = best_modes[seed % std::size(best_modes)];
  const std::string name = m.name;
  shape_of_job s;
  s.steps = static_cast<std::uint64_t>(10 + below(20));
  s.shards = static_cast<std::uint32_t>(1 + below(3));
  const std::int64_t intervals[] = {0, 1, 2, 3, 5, 7};
  s.eval_every = intervals[below(6)];
  auto spec = small_spec(s);
  spec.train.lr = 0.1;
  spec.data.values.values["test_examples"] = std::int64_t{61};
  spec.checkpoint.every_steps = below(3) == 0 ? 4 : 0;
  const bool groups = name == "downpour" || name == "group_sync" || name == "hogwild";
  const auto workers = 1 + below(4);
  (groups ? spec.topology.worker_groups : spec.topology.workers_per_group) = workers;
  if (name == "group_sync" || name == "hogwild") spec.topology.server_groups = workers;
  spec.train.finish.who = below(4) == 0 ? "any" : "all";
  spec.train.sync = {name, options_from_text(m.options, shared_tables()->modes.find(name)->specs), {}};
  best_case d;
  d.about = "seed " + std::to_string(seed) + ", " + name + ", " + std::to_string(workers) + " workers, eval every " +
            std::to_string(s.eval_every) + ", who " + spec.train.finish.who;
  auto made = prepare_job(spec, shared_tables(), nodes_named(static_cast<std::uint32_t>(workers)));
  if (!made) return d.about += made.error().front().to_string(), d;
  d.job = *made;
  d.job->keeps_best = keeps;
  return d;
}

// Stores of the best weights, with the events that followed each.
struct best_run {
  mode_result got;
  std::vector<store_effect> stored;
  std::vector<event_effect> told;
};

best_run run_best(mode_run r) {
  best_run all;
  const auto also = r.prepare;
  r.prepare = [&](sim::world& w) {
    if (also) also(w);
    w.on_store = [&, before = w.on_store](const store_effect& s) {
      s.what == store_effect::kind_of::best ? all.stored.push_back(s) : before(s);
    };
  };
  r.on_event = [&, before = r.on_event](sim::world& w, const event_effect& e) {
    if (e.is<best_event>()) all.told.push_back(e);
    if (before) before(w, e);
  };
  all.got = run(r);
  return all;
}

// Returns what is wrong with the stores; empty if nothing is.
std::string untrue_of_the_best(const prepared_job& j, const best_run& r, device* dev) {
  if (r.stored.size() != r.told.size())
    return std::to_string(r.stored.size()) + " stores, " + std::to_string(r.told.size()) + " events";
  double highest = -1;
  for (const auto& e : r.got.events)
    if (e.is<eval_event>()) highest = std::max(highest, value_in(&e, "accuracy").value_or(-1));
  double last = -1;
  best_so_far best;
  for (std::size_t i = 0; i < r.stored.size(); ++i) {
    const auto accuracy = value_in(&r.told[i], "accuracy");
    if (!accuracy || !best.note({r.told[i].step, accuracy, r.told[i].as<best_event>()->loss}))
      return "store " + std::to_string(i) + " is no better than the one before";
    last = *accuracy;
    if (r.stored[i].step != r.told[i].step || r.stored[i].with) return "the store is not of the event's step, or has a handover";
    run_result as_written;
    as_written.weights = r.stored[i].named;
    const auto again = value_in(last_of(run_of_the_written(j, as_written, dev), "done"), "test_accuracy");
    if (again != accuracy)
      return "step " + std::to_string(r.told[i].step) + ": accuracy " + std::to_string(*accuracy) + ", the stored weights have " +
             std::to_string(again.value_or(-1));
  }
  return last == highest ? "" : "the best store has " + std::to_string(last) + ", the best evaluation " + std::to_string(highest);
}

TEST(laws_best, stores_the_weights_of_the_best_evaluation) {
  const auto dev = make_cpu_device();
  std::map<std::string, std::uint64_t> stores;
  for (const auto seed : law_seeds(160)) {
    const auto d = draw_best(seed);
    ASSERT_TRUE(d.job) << d.about;
    const auto got = run_best({.job = d.job, .config = draw_world(seed, 0, dev.get())});
    ASSERT_EQ(got.got.violation, "") << d.about;
    ASSERT_EQ(untrue_of_the_best(*d.job, got, dev.get()), "") << d.about;
    stores[d.job->spec.train.sync.kind] += got.stored.size();
  }
  if (seeds(160) < 160) return;
  for (const auto& m : best_modes) EXPECT_GT(stores[m.name], 20u) << m.name;
}

TEST(laws_best, does_not_change_the_weights_of_lockstep_modes) {
  const auto dev = make_cpu_device();
  for (const auto seed : law_seeds(40)) {
    if (const std::string mode = best_modes[seed % std::size(best_modes)].name; mode != "bsp" && mode != "sandblaster") continue;
    const auto with = draw_best(seed), without = draw_best(seed, false);
    const auto config = draw_world(seed, 0, dev.get());
    const auto got = run({.job = with.job, .config = config}), want = run({.job = without.job, .config = config});
    ASSERT_EQ(got.violation + want.violation, "") << with.about;
    ASSERT_EQ(got.bytes(), want.bytes()) << with.about;
    ASSERT_EQ(last_of(want, "best"), nullptr) << with.about;
  }
}

TEST(laws_best, holds_with_faults_of_the_wire) {
  const auto dev = make_cpu_device();
  for (const auto seed : law_seeds(60)) {
    const auto d = draw_best(seed);
    const auto got = run_best({.job = d.job, .config = draw_world(seed, d.job->plan.nodes.size() > 1 ? 1 : 0, dev.get())});
    ASSERT_EQ(got.got.violation, "") << d.about;
    ASSERT_EQ(untrue_of_the_best(*d.job, got, dev.get()), "") << d.about;
  }
}

// A handover carries the best evaluation: the next plan stores only what is better.
TEST(laws_best, continues_in_the_next_plan_of_the_job) {
  std::uint64_t moves = 0;
  for (const auto seed : law_seeds(30)) {
    const auto dev = make_cpu_device();
    auto spec = small_spec({.workers = 2, .steps = 20, .eval_every = 2});
    spec.train.lr = 0.1;
    spec.data.values.values["test_examples"] = std::int64_t{61};
    auto made = prepare_job(spec, shared_tables(), nodes_named(3));
    ASSERT_TRUE(made);
    const auto job = *made;
    job->keeps_best = true;
    const auto got = run_moved(job, {{3 + seed % 7, move_key("score", "n2")}, {11 + seed % 5, move_key("score", "n1")}},
                               draw_world(seed, 0, dev.get()));
    ASSERT_EQ(got.error(), "") << "seed " << seed;
    moves += got.moved.size();
    double last = -1, highest = -1;
    best_so_far best;
    for (const auto& e : got.events) {
      if (e.is<eval_event>()) highest = std::max(highest, *value_in(&e, "accuracy"));
      const auto* stored = e.as<best_event>();
      if (!stored) continue;
      ASSERT_TRUE(best.note({e.step, stored->accuracy, stored->loss})) << "seed " << seed << ", step " << e.step;
      last = *value_in(&e, "accuracy");
    }
    ASSERT_EQ(last, highest) << "seed " << seed;
    ASSERT_FALSE(got.best.empty());
  }
  EXPECT_GT(moves, 0u);
}

// A job that continues after node failures repeats an evaluation whose best weights were not
// stored.
TEST(laws_best, survives_node_failures) {
  std::uint64_t recovered = 0;
  for (const auto seed : law_seeds(60)) {
    const auto dev = make_cpu_device();
    auto spec = small_spec({.workers = 3, .steps = 20, .eval_every = 2});
    spec.train.lr = 0.1;
    spec.data.values.values["test_examples"] = std::int64_t{61};
    auto made = prepare_job(spec, shared_tables(), nodes_named(4));
    const auto job = *made;
    job->keeps_best = true;
    wish lost{2 + seed % 9, {lose_command{{job->plan.nodes[job->plan[job->plan.workers[2]].node].name}}}, {}};
    lost.later = std::chrono::microseconds(seed * 37 % 900);
    const auto got = run_moved(job, {lost}, draw_world(seed, 0, dev.get()));
    if (!got.nothing_left.empty() || got.moved.empty()) continue;
    ++recovered;
    double last = -1, highest = -1;
    best_so_far best;
    for (const auto& e : got.events) {
      if (e.is<eval_event>()) highest = std::max(highest, *value_in(&e, "accuracy"));
      const auto* stored = e.as<best_event>();
      if (!stored) continue;
      ASSERT_TRUE(best.note({e.step, stored->accuracy, stored->loss})) << "seed " << seed;
      last = *value_in(&e, "accuracy");
    }
    ASSERT_EQ(last, highest) << "seed " << seed;
  }
  EXPECT_GT(recovered, 0u);
}

// A tester that sends the weights of an earlier round.
struct earlier_weights final : mistake {
  std::map<std::uint32_t, tensors> kept;  // by layer
  void play(role& inner, role_id self, const envelope& in, time_point now, effects& out, const prepared_job& j) override {
    const auto before = static_cast<std::ptrdiff_t>(out.list().size());
    inner.on(in, now, out);
    if (!is(j.plan, self, role_kind::tester)) return;
    for (auto e = out.list().begin() + before; e != out.list().end(); ++e) {
      auto* s = std::get_if<send_effect>(&*e);
      auto* w = s && s->e.h.dst == role_id{0} ? std::get_if<layer_weights>(&s->e.body) : nullptr;
      if (!w) continue;
      const auto given = std::exchange(kept[w->layer], w->values);
      if (!given.empty()) w->values = given;
    }
  }
};

TEST(laws_best, weights_of_another_round_are_found) {
  const auto dev = make_cpu_device();
  for (std::uint64_t seed = 1; seed < 1000; ++seed) {
    const auto d = draw_best(seed);
    if (shared_tables()->modes.find(d.job->spec.train.sync.kind)->lockstep) continue;
    earlier_weights wrong;
    const auto got = run_best({.job = d.job, .config = draw_world(seed, 0, dev.get()), .wrong = &wrong});
    const auto what = untrue_of_the_best(*d.job, got, dev.get());
    if (what.empty()) continue;
    std::printf("weights of another round: found at seed %llu: %s\n", static_cast<unsigned long long>(seed), what.c_str());
    return;
  }
  FAIL() << "weights of another round have not been found in 1,000 seeds";
}

}  // namespace
}  // namespace troupe::testing
