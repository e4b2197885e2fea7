// Invariants of carried state (algorithm "bptt"): the distribution of work changes no bit, a
// resumed run equals the uninterrupted one, layers move with their state, and lost state ends the
// job with an error that names the node.
#include <cmath>
#include <cstdlib>

#include "runtime/plain/plain_loop.hpp"
#include "tests/runtime/record/record_temp_dir.hpp"
#include "tests/sim/moving.hpp"

namespace troupe::testing {
namespace {

using test::temp_dir;

// Returns a file of 400 characters from an alphabet of 9; no period of the sequence slots repeats.
std::string text_file() {
  static const temp_dir dir;
  auto path = dir.file("text.txt");
  if (std::filesystem::exists(path)) return path;
  std::vector<std::uint8_t> bytes;
  for (std::uint32_t i = 0, x = 7; i < 400; ++i)
    bytes.push_back(static_cast<std::uint8_t>('a' + (x = x * 1103515245u + 12345u) / 65536u % 9));
  test::write_bytes(path, bytes);
  return path;
}

struct text_job : shape_of_job {
  std::int64_t sequence = 5, batch = 8;
  std::string algorithm = "bptt", order = "lanes", eval_order = "lanes", mode = "bsp";
  double lr = 0.05;
};

// Training: 279 characters, 55 sequences of 5, 6 steps an epoch; tests: 121 characters, 24
// sequences.
job_spec spec_of(const text_job& s) {
  const auto& t = *shared_tables();
  const auto n = [](std::int64_t v) { return option_value(v); };
  auto j = small_spec(s);
  j.data.source = "text";
  j.data.values =
      checked(with({{"path", text_file()}, {"sequence", n(s.sequence)}, {"test_fraction", 0.3026}}), t.sources.find("text")->specs);
  j.data.batch = s.batch;
  j.data.sampler = {s.order, checked({}, t.samplers.find(s.order)->specs), {}};
  j.eval.sampler = {s.eval_order, checked({}, t.eval_samplers.find(s.eval_order)->specs), {}};
  j.train.algorithm = s.algorithm;
  j.train.lr = s.lr;
  j.train.sync = {s.mode, checked({}, t.modes.find(s.mode)->specs), {}};
  j.layers = {layer_of("embed", "embedding", {"data"}, with({{"vocabulary", n(9)}, {"outputs", n(4)}})),
              layer_of("one", "lstm", {"embed"}, with({{"units", n(5)}})),
              layer_of("two", "gru", {"one"}, with({{"units", n(6)}})),
              layer_of("three", "rnn", {"two"}, with({{"units", n(4)}})),
              layer_of("score", "linear", {"three"}, with({{"outputs", n(9)}, {"axis", n(2)}})),
              layer_of("loss", "softmax_loss", {"score", "label"}),
              layer_of("accuracy", "accuracy", {"score", "label"})};
  j.layers.back().phase = "test";
  return j;
}

std::shared_ptr<prepared_job> prepared_on(const job_spec& s, std::uint32_t nodes = 1) {
  auto made = prepare_job(s, shared_tables(), nodes_named(nodes));
  if (!made) {
    ADD_FAILURE() << made.error().front().to_string();
    return nullptr;
  }
  return *made;
}

std::string refusal_on_two(const job_spec& s) {
  auto made = prepare_job(s, shared_tables(), nodes_named(2));
  return made ? "accepted" : made.error().front().message;
}

std::vector<double> values(const run_result& r, const std::string& kind) {
  std::vector<double> all;
  for (const auto& e : r.events)
    if (name_of(e).name == kind)
      for (const auto& [name, value] : flatten(e).values)
        if (name == "loss" || name == "accuracy") all.push_back(value);
  return all;
}

std::string bytes_of(const std::vector<std::pair<std::string, tensor>>& named) {
  std::string all;
  for (const auto& [name, t] : named) all.append(static_cast<const char*>(t.raw()), t.bytes());
  return all;
}

class carried : public ::testing::Test {
 protected:
  const std::shared_ptr<device> dev = make_cpu_device();
  sim::world_config world(std::uint64_t seed = 1) const {
    sim::world_config c;
    c.seed = seed;
    c.dev = dev.get();
    return c;
  }
  run_result run(const text_job& s, std::uint64_t seed = 1) const { return run_in_world(prepared_on(spec_of(s)), world(seed)); }
};

// Forward runs twice from the packet's initial state; the carried state is sent once.
TEST_F(carried, recomputed_layers_carry_the_same_state) {
  text_job s;
  s.steps = 15, s.eval_every = 4;
  auto spec = spec_of(s);
  for (auto& l : spec.layers) l.recompute = l.type == "lstm" || l.type == "gru" || l.type == "embedding";
  for (const bool fuse : {false, true}) {
    spec.pipeline.fuse = fuse ? "auto" : "none";
    EXPECT_EQ(run_in_world(prepared_on(spec), world()).bytes(), run(s).bytes());
  }
}

TEST_F(carried, weights_equal_a_plain_loop_for_any_workers_and_sub_solvers) {
  text_job s;
  s.steps = 15, s.eval_every = 4;
  plain_loop loop(prepared_on(spec_of(s)), dev);
  for (int i = 0; i < 15; ++i) loop.step();
  const auto alone = run(s);
  ASSERT_EQ(alone.bytes(), bytes_of(loop.weights()));
  ASSERT_GE(values(alone, "eval").size(), 6u);
  for (std::uint32_t workers : {1u, 2u, 3u, 4u})
    for (std::uint32_t slots : {1u, 3u})
      for (const char* fuse : {"none", "auto"}) {
        auto o = s;
        o.workers = workers, o.sub_solvers = slots, o.fuse = fuse, o.shards = 1 + workers % 3;
        const auto got = run(o, workers * 10 + slots);
        ASSERT_EQ(got.bytes(), alone.bytes()) << workers << " workers, " << slots << " sub-solvers, fuse " << fuse;
        ASSERT_EQ(values(got, "eval"), values(alone, "eval")) << workers << " workers, " << slots << " sub-solvers, fuse " << fuse;
        ASSERT_EQ(values(got, "step"), values(alone, "step"));
      }
}

TEST_F(carried, duplicate_late_messages_change_no_bit) {
  text_job s;
  s.workers = 2, s.sub_solvers = 2, s.steps = 8, s.eval_every = 3;
  const auto still = run(s);
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const auto twice = [](const envelope& e, sim::random& r) {
      const bool doubles = std::holds_alternative<forward>(e.body) || std::holds_alternative<backward>(e.body) ||
                           std::holds_alternative<credit>(e.body) || std::holds_alternative<gradient>(e.body) ||
                           std::holds_alternative<push>(e.body) || std::holds_alternative<layer_weights>(e.body);
      return doubles && r.below(2) == 0 ? 2 : 1;
    };
    const auto got = run_in_world(prepared_on(spec_of(s), 2), world(seed), twice);
    ASSERT_EQ(got.bytes(), still.bytes()) << "seed " << seed;
    ASSERT_EQ(values(got, "eval"), values(still, "eval")) << "seed " << seed;
  }
}

TEST_F(carried, bptt_differs_from_bp_by_the_state_and_each_epoch_resets_it) {
  text_job with_state, without;
  without.algorithm = "bp";
  with_state.steps = without.steps = 1;
  EXPECT_EQ(run(with_state).bytes(), run(without).bytes());  // the first step of an epoch has no carried state
  with_state.steps = without.steps = 2;
  EXPECT_NE(run(with_state).bytes(), run(without).bytes());
  // Without learning every epoch repeats the first.
  with_state.lr = 0, with_state.steps = 18;
  const auto losses = values(run(with_state), "step");
  for (std::size_t i = 6; i < 18; ++i) EXPECT_EQ(losses[i], losses[i % 6]) << i;
  EXPECT_NE(losses[1], losses[0]);
}

// Sequence slots of three sequences of length 5 equal slots of one sequence of length 15.
TEST_F(carried, evaluation_reads_each_sequence_slot_as_one_long_sequence) {
  text_job s;
  s.lr = 0, s.steps = 1, s.packets = 2;
  auto longer = s;
  longer.sequence = 15;
  auto broken = s;
  broken.eval_order = "all";  // every sequence from zeros
  const auto a = values(run(s), "eval"), b = values(run(longer), "eval"), c = values(run(broken), "eval");
  ASSERT_EQ(a.size(), 2u);
  EXPECT_NEAR(a[1], b[1], 1e-6);
  EXPECT_NEAR(a[0], b[0], 1e-6);
  EXPECT_GT(std::abs(a[1] - c[1]), 1e-5);
}

struct stored {
  std::uint64_t step = 0;
  std::vector<std::pair<std::string, tensor>> named;
};

TEST_F(carried, resumed_run_equals_the_uninterrupted_run) {
  for (const char* mode : {"bsp", "ssp"}) {
    SCOPED_TRACE(mode);
    text_job s;
    s.workers = 2, s.steps = 14, s.mode = mode;
    const auto j = prepared_on(spec_of(s));
    stored at;
    sim::world w(world());
    for (const auto& r : j->plan.roles) w.add(r.id, r.node, make_role(j, r.id));
    run_result unbroken;
    const auto tell = [&](message m) {
      envelope e;
      e.h.dst = role_id{0};
      e.body = std::move(m);
      w.inject(std::move(e));
    };
    w.on_event = [&](const event_effect& e) {
      unbroken.done = unbroken.done || e.is<done_event>() || e.is<error_event>();
      if (e.is<step_event>() && e.step == 1) w.at(w.now(), [&] { tell(command{checkpoint_command{}}); });
    };
    w.on_store = [&](const store_effect& x) {
      if (x.what == store_effect::kind_of::checkpoint) at = {x.step, x.named};
      if (x.what == store_effect::kind_of::weights) unbroken.weights = x.named;
    };
    tell(start{});
    ASSERT_TRUE(w.run(2'000'000, [&] { return unbroken.done; }) && unbroken.done);
    ASSERT_NE(at.step % 6, 0u) << "the checkpoint is at the end of an epoch, where no state is carried";
    std::size_t states = 0;
    for (const auto& [name, t] : at.named) states += name.ends_with("@carried") ? 1 : 0;
    ASSERT_EQ(states, 4u);                     // h and c of the lstm, h of gru and rnn
    if (std::string(mode) != "bsp") continue;  // a resumed ssp run has other timing; only the presence of the state is checked
    auto o = s;
    o.workers = 3, o.sub_solvers = 2;
    const auto begun = [&](const text_job& how, const std::vector<std::pair<std::string, tensor>>& named) {
      auto again = prepared_on(spec_of(how));
      begin_at(*again, at.step, named);
      return again;
    };
    EXPECT_EQ(run_in_world(begun(o, at.named), world(5)).bytes(), unbroken.bytes());
    plain_loop loop(begun(o, at.named), dev);
    while (loop.steps() < 14) loop.step();
    EXPECT_EQ(bytes_of(loop.weights()), unbroken.bytes());
    auto forgetful = at.named;
    std::erase_if(forgetful, [](const auto& n) { return n.first.ends_with("@carried"); });
    EXPECT_NE(run_in_world(begun(s, forgetful), world()).bytes(), unbroken.bytes());
  }
}

TEST_F(carried, moved_layers_keep_their_state) {
  text_job s;
  s.workers = 2, s.sub_solvers = 2, s.steps = 24, s.eval_every = 7;
  const auto still = run_in_world(prepared_on(spec_of(s), 3), world(2));
  const auto got = run_moved(prepared_on(spec_of(s), 3),
                             {{2, move_key("one", "n3")}, {8, move_key("two", "n1")}, {9, {drain_command{"n2"}}}}, world(2));
  EXPECT_GE(got.moved.size(), 2u) << (got.refused.empty() ? "" : got.refused.front());
  EXPECT_EQ(got.bytes(), still.bytes());
  EXPECT_EQ(values(got, "eval"), values(still, "eval"));
}

TEST_F(carried, other_modes_carry_state) {
  for (const char* mode : {"ssp", "downpour", "easgd", "eamsgd", "gossip", "hogwild"}) {
    SCOPED_TRACE(mode);
    text_job s;
    s.rule = mode == std::string("eamsgd") ? "nesterov" : "momentum";
    s.mode = mode, s.workers = 2, s.steps = 20, s.eval_every = 5;
    const auto r = run(s);
    ASSERT_FALSE(r.weights.empty());
    for (const auto& x : values(r, "eval")) EXPECT_TRUE(std::isfinite(x));
  }
}

TEST(carried_jobs, impossible_jobs_are_refused_with_the_reason) {
  text_job s;
  s.order = "shuffle";
  EXPECT_NE(refusal_on_two(spec_of(s)).find("an example does not continue the example before it"), std::string::npos);
  s = {};
  s.mode = "sandblaster";
  EXPECT_NE(refusal_on_two(spec_of(s)).find("keeps the state of a sequence with its worker"), std::string::npos);
  s = {};
  auto j = spec_of(s);
  j.layers.erase(j.layers.begin() + 1, j.layers.begin() + 4);
  j.layers[1].inputs = {"embed"};
  EXPECT_NE(refusal_on_two(j).find("carries state from step to step (rnn, lstm, gru), and there is none"), std::string::npos);
  j = spec_of(s);
  j.layers[1].partition = "feature";
  j.layers[1].place = {"n1", "n2"};
  EXPECT_NE(refusal_on_two(j).find("feature"), std::string::npos) << refusal_on_two(j);
  j = spec_of(s);
  j.layers[0] = layer_of("embed", "linear", {"data"}, with({{"outputs", std::int64_t{4}}}));
  EXPECT_NE(refusal_on_two(j).find("holds ids"), std::string::npos) << refusal_on_two(j);
  j = spec_of(s);
  j.layers[0].values.values["vocabulary"] = std::int64_t{8};
  EXPECT_NE(refusal_on_two(j).find("a vocabulary of 8, but the data has 9"), std::string::npos) << refusal_on_two(j);
  EXPECT_EQ(refusal_on_two(spec_of(s)), "accepted");
}

}  // namespace
}  // namespace troupe::testing
