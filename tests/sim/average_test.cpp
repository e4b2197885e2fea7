// Averages of the weights ([train.average]): the final weights, evaluations, checkpoints, and the
// same bits for any shape of a run.
#include <map>
#include <random>

#include "runtime/coordinator/handover.hpp"
#include "tests/error_text.hpp"
#include "tests/sim/small_job.hpp"

namespace troupe::testing::average_runs {
namespace {

average_spec ema(double decay = 0.6) {
  average_spec a;
  a.kind = "ema";
  a.decay = decay;
  return a;
}
average_spec swa(std::int64_t start, std::int64_t every = 1) {
  average_spec a;
  a.kind = "swa";
  a.start = start;
  a.every = every;
  return a;
}

void set_mode(job_spec& j, const std::string& mode) {
  j.train.sync = {mode, checked({}, shared_tables()->modes.find(mode)->specs), {}};
}

std::shared_ptr<prepared_job> prepared(const job_spec& s, std::uint32_t nodes = 1) {
  auto made = prepare_job(s, shared_tables(), nodes_named(nodes));
  if (!made) {
    ADD_FAILURE() << made.error().front().to_string();
    return nullptr;
  }
  return *made;
}

run_result ran(const std::shared_ptr<prepared_job>& j, std::uint64_t seed = 1) {
  sim::world_config c;
  c.seed = seed;
  c.dev = cpu().get();
  return run_in_world(j, c);
}

std::vector<std::map<std::string, double>> evaluations(const run_result& r) {
  std::vector<std::map<std::string, double>> all;
  for (const auto& e : r.events)
    if (e.is<eval_event>()) {
      auto& values = all.emplace_back();
      for (const auto& [name, value] : flatten(e).values) values[name] = value;
      values["step"] = static_cast<double>(e.step);
    }
  return all;
}

job_spec job_with(const average_spec& a, std::uint64_t steps = 8) {
  auto j = small_spec({.workers = 1, .steps = steps, .eval_every = 3});
  j.precision = "f64";
  j.train.average = a;
  return j;
}

std::vector<double> flat(const run_result& r) {
  std::vector<double> all;
  for (const auto& [name, t] : r.weights) all.insert(all.end(), t.data<double>(), t.data<double>() + t.count());
  return all;
}

// The weights after each step, without averages.
std::vector<std::vector<double>> weights_by_step(std::uint64_t steps) {
  std::vector<std::vector<double>> all;
  for (std::uint64_t k = 1; k <= steps; ++k) all.push_back(flat(ran(prepared(job_with({}, k)))));
  return all;
}

void expect_near(const std::vector<double>& a, const std::vector<double>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], 1e-12) << i;
}

TEST(averages, final_weights_are_the_average_of_the_weights_of_all_steps) {
  const auto each = weights_by_step(8);
  auto moving = each[0], mean = std::vector<double>(moving.size());
  for (std::size_t k = 1; k < each.size(); ++k)
    for (std::size_t i = 0; i < moving.size(); ++i) moving[i] = 0.6 * moving[i] + 0.4 * each[k][i];
  for (const std::size_t k : {4, 6})  // start 3, every 2: updates 5 and 7
    for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += each[k][i] / 2;
  expect_near(flat(ran(prepared(job_with(ema())))), moving);
  expect_near(flat(ran(prepared(job_with(swa(3, 2))))), mean);
  auto fraction = job_with(swa(0, 2));
  fraction.train.average.start_fraction = 0.4;  // of 8 steps: 3
  expect_near(flat(ran(prepared(fraction))), mean);
  auto raw = job_with(ema());
  raw.train.average.write = "weights";
  EXPECT_EQ(flat(ran(prepared(raw))), each.back());
  expect_near(flat(ran(prepared(job_with(swa(20))))), each.back());  // it has not begun
}

TEST(averages, statistics_and_frozen_parameters_keep_their_values) {
  auto j = job_with(ema());
  j.layers.insert(j.layers.begin() + 1, layer_of("norm", "batch_norm", {"conv1"}));
  j.layers[2].inputs = {"norm"};
  j.train.freeze = {"left"};
  auto plain = j;
  plain.train.average = {};
  const auto with_average = ran(prepared(j)), without = ran(prepared(plain));
  ASSERT_EQ(with_average.weights.size(), without.weights.size());
  for (std::size_t i = 0; i < without.weights.size(); ++i) {
    const auto& [name, a] = with_average.weights[i];
    const auto& b = without.weights[i].second;
    const bool same = std::equal(a.data<double>(), a.data<double>() + a.count(), b.data<double>());
    EXPECT_EQ(same, name.find("running") != std::string::npos || name.starts_with("left.")) << name;
  }
}

TEST(averages, evaluations_use_the_average_the_weights_or_both) {
  auto j = job_with(ema());
  const auto of_average = evaluations(ran(prepared(j)));
  j.train.average.evaluate = "weights";
  const auto of_weights = evaluations(ran(prepared(j)));
  j.train.average.evaluate = "both";
  const auto of_both = evaluations(ran(prepared(j)));
  const auto plain = evaluations(ran(prepared(job_with({}))));
  EXPECT_EQ(of_weights, plain);
  ASSERT_EQ(of_average.size(), 3u);  // steps 3, 6 and 8
  ASSERT_EQ(of_both.size(), 3u);
  for (std::size_t k = 0; k < 3; ++k) {
    EXPECT_EQ(of_both[k].at("step"), plain[k].at("step"));
    EXPECT_EQ(of_both[k].at("loss"), of_average[k].at("loss"));
    EXPECT_EQ(of_both[k].at("accuracy"), of_average[k].at("accuracy"));
    EXPECT_EQ(of_both[k].at("weights.loss"), plain[k].at("loss"));
    EXPECT_EQ(of_both[k].at("weights.accuracy"), plain[k].at("accuracy"));
    EXPECT_NE(of_average[k].at("loss"), plain[k].at("loss"));
  }
  // The last evaluation is that of the final weights.
  auto again = job_with({}, 8);
  again.train.lr = 0, again.train.finish.steps = 1, again.eval.every = 1;
  again.train.decay = 0;
  auto last = prepared(again);
  begin_at(*last, 0, ran(prepared(job_with(ema()))).weights);
  const auto tested = evaluations(ran(last));
  EXPECT_NEAR(tested.back().at("loss"), of_average.back().at("loss"), 1e-12);
}

// Draws the shape of a run: none of it may change a bit of the averages or of evaluations.
job_spec drawn_shape(std::uint64_t seed, std::uint32_t& nodes) {
  std::mt19937_64 g(seed);
  const auto below = [&](std::uint64_t n) { return static_cast<std::uint32_t>(g() % n); };
  shape_of_job s;
  s.workers = 1 + below(4), s.shards = 1 + below(3), s.sub_solvers = 1 + below(3);
  s.fuse = below(2) == 0 ? "auto" : "none", s.fuse_layers = below(2) == 0;
  s.steps = 7, s.eval_every = 3;
  auto j = small_spec(s);
  nodes = 1 + below(4);
  const char* modes[] = {"bsp", "bsp", "sandblaster"};
  set_mode(j, modes[below(3)]);
  if (j.train.sync.kind == "bsp" && below(3) == 0 && s.workers > 1) j.train.reducer = "tree";
  if (below(3) == 0) j.topology.max_block = 64;
  if (nodes > 1 && j.train.sync.kind == "bsp" && j.train.reducer == "server" && below(2) == 0) {
    j.layers[3].partition = "none";
    j.layers[3].key_at["partition"] = {};
    j.layers[3].place = {"n2"};
  }
  return j;
}

TEST(averages, have_the_same_bits_for_any_shape_of_a_run) {
  for (std::uint64_t seed = 1; seed <= seeds(60); ++seed) {
    std::uint32_t nodes = 1;
    auto j = drawn_shape(seed, nodes);
    auto a = seed % 2 == 0 ? ema(0.8) : swa(2);
    a.bias_correction = seed % 4 == 0;
    a.evaluate = seed % 3 == 0 ? "both" : "average";
    j.train.average = a;
    auto alone = small_spec({.steps = 7, .eval_every = 3});
    alone.train.average = a;
    const auto got = ran(prepared(j, nodes), seed), want = ran(prepared(alone));
    ASSERT_EQ(got.error(), "") << "seed " << seed;
    ASSERT_TRUE(got.bytes() == want.bytes()) << "seed " << seed << " " << j.train.sync.kind;
    ASSERT_EQ(evaluations(got), evaluations(want)) << "seed " << seed;
  }
}

TEST(averages, resumed_job_has_the_bits_of_the_uninterrupted_one) {
  for (const auto& a : {ema(), swa(3, 2), swa(7)})
    for (const char* mode : {"bsp", "sandblaster"}) {
      auto spec = job_with(a, 10);
      set_mode(spec, mode);
      spec.checkpoint.every_steps = 5;
      const auto j = prepared(spec);
      std::optional<store_effect> kept;
      sim::world_config c;
      c.dev = cpu().get();
      sim::world w(c);
      for (const auto& r : j->plan.roles) w.add(r.id, r.node, make_role(j, r.id), r.device);
      w.on_store = [&](const store_effect& s) {
        if (s.what == store_effect::kind_of::checkpoint && s.step == 5) kept = s;
      };
      bool done = false;
      w.on_event = [&](const event_effect& e) { done = done || e.is<done_event>() || e.is<error_event>(); };
      envelope go;
      go.h.dst = role_id{0};
      go.body = start{};
      w.inject(go);
      ASSERT_TRUE(w.run(2'000'000, [&] { return done; }));
      ASSERT_TRUE(kept) << mode;
      const auto again = prepared(spec);
      const auto fine = resume_from(*again, checkpoint_of(*j, *kept, "x"), "c.safetensors", "x", {});
      ASSERT_TRUE(fine) << test::error_text(fine);
      EXPECT_TRUE(ran(again).bytes() == ran(prepared(spec)).bytes()) << mode << " " << a.kind << a.start;
    }
}

TEST(averages, checkpoint_begins_a_test_with_the_average_or_the_weights) {
  auto spec = job_with(ema(), 4);
  const auto j = prepared(spec);
  const auto average = ran(prepared(spec)).weights;
  spec.train.average.write = "weights";
  const auto raw_job = prepared(spec);
  const auto raw = ran(raw_job).weights;
  safetensors_content c;
  for (std::size_t i = 0; i < raw.size(); ++i) {
    c.named.push_back(raw[i]);
    c.named.emplace_back(raw[i].first + "@average", average[i].second);
  }
  ASSERT_TRUE(begin_from_weights(*j, c, "file"));
  for (std::size_t i = 0; i < raw.size(); ++i) EXPECT_TRUE(given(*j)[i].second.same_storage(average[i].second)) << raw[i].first;
  ASSERT_TRUE(begin_from_weights(*raw_job, c, "file"));
  for (std::size_t i = 0; i < raw.size(); ++i) EXPECT_TRUE(given(*raw_job)[i].second.same_storage(raw[i].second)) << raw[i].first;
}

TEST(averages, ssp_evaluates_and_writes_the_average) {
  auto j = job_with(ema());
  set_mode(j, "ssp");
  j.topology.workers_per_group = 2;
  j.train.average.evaluate = "both";
  const auto got = ran(prepared(j, 2));
  EXPECT_EQ(got.error(), "");
  const auto all = evaluations(got);
  ASSERT_FALSE(all.empty());
  EXPECT_NE(all.back().at("loss"), all.back().at("weights.loss"));
  // staleness 0 is bsp
  j.train.sync.values = checked(with({{"staleness", std::int64_t{0}}}), shared_tables()->modes.find("ssp")->specs);
  EXPECT_TRUE(ran(prepared(j, 2)).bytes() == ran(prepared(job_with(ema()))).bytes());
}

TEST(averages, best_weights_are_those_that_were_evaluated) {
  for (const char* mode : {"bsp", "ssp"}) {
    auto spec = job_with(ema());
    set_mode(spec, mode);
    const auto j = prepared(spec);
    j->keeps_best = true;
    std::vector<std::pair<std::string, tensor>> best;
    sim::world_config c;
    c.dev = cpu().get();
    sim::world w(c);
    for (const auto& r : j->plan.roles) w.add(r.id, r.node, make_role(j, r.id), r.device);
    std::optional<best_event> said;
    w.on_store = [&](const store_effect& s) {
      if (s.what == store_effect::kind_of::best) best = s.named;
    };
    bool done = false;
    w.on_event = [&](const event_effect& e) {
      if (const auto* b = e.as<best_event>()) said = *b;
      done = done || e.is<done_event>() || e.is<error_event>();
    };
    envelope go;
    go.h.dst = role_id{0};
    go.body = start{};
    w.inject(go);
    ASSERT_TRUE(w.run(2'000'000, [&] { return done; }));
    ASSERT_TRUE(said && !best.empty()) << mode;
    auto again = job_with({}, 1);
    again.train.lr = again.train.decay = 0;
    const auto tested = prepared(again);
    begin_at(*tested, 0, best);
    EXPECT_NEAR(evaluations(ran(tested)).back().at("loss"), said->loss, 1e-12) << mode;
  }
}

TEST(averages, are_refused_in_modes_without_one_sequence_of_weights) {
  for (const char* mode : {"downpour", "easgd", "gossip", "hogwild", "group_sync"}) {
    auto j = job_with(ema());
    set_mode(j, mode);
    j.train.average.at = {"job.toml", 12, 1};
    EXPECT_EQ(refusal(j), std::string("job.toml:12:1: mode '") + mode +
                              "' has no single sequence of weights that could be averaged; remove [train.average], or use a mode "
                              "that has one (bsp, sandblaster, ssp)");
  }
  auto j = job_with(swa(0));
  j.train.average.start_fraction = 0.5;
  j.train.finish = {};
  j.train.finish.seconds = 5;
  EXPECT_NE(refusal(j).find("start_fraction is a fraction of the job's steps"), std::string::npos) << refusal(j);
}

}  // namespace
}  // namespace troupe::testing::average_runs
