// Invariants of nonfinite gradients: an element of one packet's gradient at one step becomes
// infinite or NaN between stage and worker, and no role may apply it. In modes whose gradients meet
// at shards, all blocks skip the same step, for any owners; in modes whose workers step on their
// own, the worker that computed it skips it. The draw covers the step, the packet, the layer, and
// the distribution of parameters and packets.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "runtime/coordinator/skipped_steps.hpp"
#include "tests/sim/mode_checkers.hpp"

namespace troupe::testing {
namespace {

// Changes an element of one packet's gradient at these steps, in one layer.
struct spoilt_gradient : mistake {
  std::set<std::uint64_t> steps;
  std::uint32_t packet = 0, layer = 0;
  double with = std::numeric_limits<double>::infinity();
  std::int64_t at = -1;  // index of the element; -1: the step's number
  std::uint64_t spoilt = 0;

  void play(role& inner, role_id, const envelope& in, time_point now, effects& out, const prepared_job& j) override {
    const auto before = out.list().size();
    inner.on(in, now, out);
    for (auto i = before; i < out.list().size(); ++i) {
      auto* s = std::get_if<send_effect>(&out.list()[i]);
      auto* g = s ? std::get_if<gradient>(&s->e.body) : nullptr;
      if (!g || g->layer != layer || s->e.h.packet != packet || !steps.contains(s->e.h.step) || !g->grads[0].backed()) continue;
      auto& dev = *device_of_run();
      tensor bad = tensor::allocate(dev, g->grads[0].dims(), j.spec.parameter_type());
      dev.copy(g->grads[0], bad);
      auto one = bad.reshaped({bad.count()}).slice((at < 0 ? static_cast<std::int64_t>(s->e.h.step) : at) % bad.count(), {1});
      dev.fill(with, one);
      g->grads[0] = bad;
      ++spoilt;
    }
  }
};

std::vector<std::string> announced(const mode_result& r, const std::string& kind) {
  std::vector<std::string> list;
  for (const auto& e : r.events)
    if (name_of(e).name == kind) list.push_back(message_of(e));
  return list;
}

std::string not_finite_in(const mode_result& r) {
  for (const auto& [name, t] : r.weights)
    for (const double v : values(t))
      if (!std::isfinite(v)) return name;
  return {};
}

mode_result run_spoilt(const mode_shape& shape, spoilt_gradient& bad, device* dev, std::uint64_t seed,
                       const fault_wish& wish = {}) {
  return run(
      {.job = prepare_mode(shape), .config = draw_world(seed, shape.together ? 0 : shape.workers, dev, wish), .wrong = &bad});
}

// A mode whose gradients meet at shards.
struct meeting_case {
  const char* name;
  mode_shape shape;
};
class laws_not_finite : public ::testing::TestWithParam<meeting_case> {};

// The weights do not depend on the distribution or the order of messages. If the bad step is the
// last, they equal those of a job one step shorter.
TEST_P(laws_not_finite, all_blocks_skip_the_same_step) {
  const auto dev = make_cpu_device();
  fault_sums sums;
  for (const auto seed : law_seeds(60)) {
    auto shape = draw_shape(seed, GetParam().shape);
    shape.packets = 8;
    shape.workers = shape.groups * (1u << (seed % (shape.groups > 1 ? 2 : 3)));
    shape.layers = 3;
    shape.rule = "momentum";
    shape.max_skipped = 2;
    spoilt_gradient bad;
    bad.layer = static_cast<std::uint32_t>(seed % 3);
    bad.packet = static_cast<std::uint32_t>(seed * 7 % 8);
    bad.with = seed % 2 ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
    const bool last = seed % 4 == 0;
    bad.steps = {last ? shape.steps - 1 : seed * 5 % shape.steps};
    const auto got = run_spoilt(shape, bad, dev.get(), seed);
    ASSERT_EQ(got.violation, "") << "seed " << seed;
    ASSERT_GE(bad.spoilt, 1u);
    sums.add(got.counts);
    EXPECT_EQ(not_finite_in(got), "") << "seed " << seed;
    const auto alerts = announced(got, "alert");
    ASSERT_EQ(alerts.size(), 1u) << "seed " << seed;
    EXPECT_EQ(alerts[0], "the gradient of layer 'loss" + std::to_string(bad.layer) +
                             "', parameter 'weight', is not finite at step " + std::to_string(*bad.steps.begin() + 1) +
                             ": the step is skipped (1 in a row, at most 2)");

    auto alone = shape;
    alone.workers = alone.groups;
    alone.shards = 1;
    alone.fuse = "none", alone.sub_solvers = 1;
    spoilt_gradient same = bad;
    const auto want = run_spoilt(alone, same, dev.get(), 1, {.faults = false});
    ASSERT_EQ(want.violation, "") << "seed " << seed;
    EXPECT_EQ(got.bytes(), want.bytes()) << "seed " << seed << ": " << shape.workers << " workers, " << shape.shards << " shards";
    if (!last || shape.groups > 1) continue;
    auto shorter = shape;
    --shorter.steps;
    spoilt_gradient none;
    EXPECT_EQ(got.bytes(), run_spoilt(shorter, none, dev.get(), seed).bytes()) << "seed " << seed;
  }
  sums.expect_all();
}

INSTANTIATE_TEST_SUITE_P(every, laws_not_finite,
                         ::testing::Values(meeting_case{"bsp", {.mode = "bsp"}},
                                           meeting_case{"bsp_small_blocks", {.mode = "bsp", .max_block = 128}},
                                           meeting_case{"bsp_clipped", {.mode = "bsp", .clip_norm = 0.5}},
                                           meeting_case{"tree", {.mode = "bsp", .reducer = "tree"}},
                                           meeting_case{"ssp_0", {.mode = "ssp", .options = {{"staleness", "0"}}}},
                                           meeting_case{"sandblaster", {.mode = "sandblaster"}}),
                         [](const auto& i) { return std::string(i.param.name); });

// max_skipped consecutive steps are skipped; one more ends the job with an error that names the
// parameter. A finite step between them resets the count.
TEST(laws_not_finite_rows, one_step_more_than_max_skipped_ends_the_job) {
  const auto dev = make_cpu_device();
  for (const auto seed : law_seeds(40)) {
    auto shape = draw_shape(seed, {.mode = seed % 2 ? "bsp" : "downpour"});
    if (shape.mode == "downpour") shape.packets = shape.workers, shape.groups = shape.workers;
    const std::uint64_t may = seed % 4;
    shape.max_skipped = static_cast<std::int64_t>(may);
    spoilt_gradient bad;
    for (std::uint64_t k = 0; k < may; ++k) bad.steps.insert(2 + k);
    for (std::uint64_t k = 0; k <= may; ++k) bad.steps.insert(3 + may + k);
    const auto got = run_spoilt(shape, bad, dev.get(), seed);
    EXPECT_EQ(announced(got, "alert").size(), 2 * may) << "seed " << seed;
    const auto step = std::to_string(4 + 2 * may);
    const auto text = "the gradient of layer 'loss0', parameter 'weight', is not finite at step " + step;
    const auto why = may == 0
                         ? ": the job ends because [train] max_skipped is 0"
                         : ": " + std::to_string(may + 1) + " such steps in a row, [train] max_skipped is " + std::to_string(may);
    EXPECT_THAT(got.error, ::testing::StartsWith(text + why + "; training diverges: ")) << "seed " << seed;
  }
}

// If workers step on their own, a skipped step of one worker does not affect the others; its
// gradient never reaches any weights.
TEST(laws_not_finite_alone, worker_skips_its_own_step) {
  const auto dev = make_cpu_device();
  const std::vector<mode_shape> cases = {
      {.mode = "downpour", .options = {{"n_push", "2"}, {"n_fetch", "3"}}},
      {.mode = "easgd", .options = {{"alpha", "0.1"}, {"tau", "2"}}},
      {.mode = "eamsgd", .options = {{"alpha", "0.1"}, {"tau", "2"}, {"variant", "sync"}}, .rule = "nesterov"},
      {.mode = "gossip"},
      {.mode = "hogwild"}};
  for (const auto seed : law_seeds(60)) {
    auto shape = draw_shape(seed, cases[seed % cases.size()]);
    shape.packets = shape.workers;
    if (shape.mode == "downpour" || shape.mode == "hogwild") shape.groups = shape.mode == "downpour" ? shape.workers : 1;
    shape.together = shape.mode == "hogwild";
    shape.max_skipped = 3;
    spoilt_gradient bad;
    bad.packet = static_cast<std::uint32_t>(seed % shape.packets);
    bad.layer = static_cast<std::uint32_t>(seed % 2);
    bad.steps = {seed % shape.steps, seed * 3 % shape.steps};
    const auto got = run_spoilt(shape, bad, dev.get(), seed);
    ASSERT_EQ(got.violation, "") << shape.mode << ", seed " << seed;
    EXPECT_EQ(not_finite_in(got), "") << shape.mode << ", seed " << seed;
    EXPECT_EQ(announced(got, "alert").size(), bad.steps.size()) << shape.mode << ", seed " << seed;
    for (const auto& text : announced(got, "alert"))
      EXPECT_NE(text.find("worker" + std::to_string(bad.packet)), std::string::npos)
          << text << ", " << shape.mode << ", seed " << seed;
  }
}

// Server groups that train separately: a bad gradient of one group reaches no other group.
TEST(laws_not_finite_alone, groups_skip_their_own_steps) {
  const auto dev = make_cpu_device();
  for (const auto seed : law_seeds(40)) {
    mode_shape shape{.mode = "group_sync", .options = {{"sync_freq", "3"}}};
    shape.groups = shape.server_groups = 2;
    shape.workers = 4, shape.packets = 8, shape.shards = 1 + static_cast<std::uint32_t>(seed % 3), shape.layers = 3;
    shape.max_skipped = 2;
    spoilt_gradient bad;
    bad.packet = static_cast<std::uint32_t>(seed % 8);
    bad.layer = static_cast<std::uint32_t>(seed % 3);
    bad.steps = {seed % shape.steps};
    const auto got = run_spoilt(shape, bad, dev.get(), seed);
    ASSERT_EQ(got.violation, "") << "seed " << seed;
    EXPECT_EQ(not_finite_in(got), "") << "seed " << seed;
    EXPECT_EQ(announced(got, "alert").size(), 1u) << "seed " << seed;
  }
}

// A worker that adds its own gradients to fetched weights does not add a skipped one: the next step
// is finite.
TEST(laws_not_finite_alone, skipped_step_is_not_added_to_the_workers_weights) {
  const auto dev = make_cpu_device();
  for (const auto seed : law_seeds(60)) {
    auto shape = draw_shape(seed, {.mode = "ssp", .options = {{"staleness", std::to_string(1 + seed % 4)}}});
    shape.max_skipped = 1;
    spoilt_gradient bad;
    bad.packet = static_cast<std::uint32_t>(seed % shape.packets);
    bad.layer = static_cast<std::uint32_t>(seed % 2);
    bad.steps = {seed % shape.steps};
    const auto got = run_spoilt(shape, bad, dev.get(), seed);
    ASSERT_EQ(got.violation, "") << "seed " << seed;
    EXPECT_EQ(not_finite_in(got), "") << "seed " << seed;
    EXPECT_EQ(announced(got, "alert").size(), 1u) << "seed " << seed;
  }
}

// Planted: a shard that skips only its own blocks, because it ignores the nonfinite reports of
// other shards.
struct ignores_nonfinite_reports final : spoilt_gradient {
  void play(role& inner, role_id self, const envelope& in, time_point now, effects& out, const prepared_job& j) override {
    auto e = in;
    if (auto* f = std::get_if<nonfinite_report>(&e.body); f && is(j.plan, self, role_kind::shard)) f->bad.clear();
    spoilt_gradient::play(inner, self, e, now, out, j);
  }
};

TEST(laws_not_finite_mistakes, shards_that_ignore_nonfinite_reports_are_found) {
  const auto dev = make_cpu_device();
  for (std::uint64_t seed = 1; seed < 100; ++seed) {
    auto shape = draw_shape(seed, {.mode = "bsp", .layers = 3, .max_skipped = 1});
    shape.packets = 8, shape.workers = 2, shape.shards = 3;
    ignores_nonfinite_reports wrong;
    spoilt_gradient right;
    wrong.steps = right.steps = {3};
    if (run_spoilt(shape, wrong, dev.get(), seed).bytes() != run_spoilt(shape, right, dev.get(), seed).bytes()) return;
  }
  FAIL() << "not found in 100 seeds";
}

// With finite gradients, a job that may skip steps has the weights of one that may not.
TEST(laws_not_finite_rows, max_skipped_changes_no_bit_of_finite_training) {
  const auto dev = make_cpu_device();
  for (const auto seed : law_seeds(40)) {
    const char* modes[] = {"bsp", "ssp", "sandblaster", "group_sync"};
    auto shape = draw_shape(seed, {.mode = modes[seed % 4]});
    if (shape.mode == "ssp") shape.options = {{"staleness", "0"}};
    shape.packets = 0;
    spoilt_gradient none;
    const auto without = run_spoilt(shape, none, dev.get(), seed);
    shape.max_skipped = 1;
    const auto with = run_spoilt(shape, none, dev.get(), seed + 1000);
    ASSERT_EQ(without.violation + with.violation, "") << shape.mode << ", seed " << seed;
    EXPECT_EQ(with.bytes(), without.bytes()) << shape.mode << ", seed " << seed;
  }
}

// With max_skipped = 0 a large block is checked and updated in pieces: with the same bits, and
// errors in its last piece are found.
TEST(laws_not_finite_rows, large_block_in_pieces_equals_the_whole_block_bit_for_bit) {
  const auto dev = make_cpu_device();
  for (const char* rule : {"sgd", "momentum", "adam"})
    for (const char* precision : {"f64", "fp32"}) {
      mode_shape shape{.packets = 2, .layers = 1, .steps = 3, .rule = rule, .lr = 1e-6, .columns = 70001, .examples = 8};
      shape.precision = precision;
      spoilt_gradient none;
      const auto in_pieces = run_spoilt(shape, none, dev.get(), 1, {.faults = false});
      ASSERT_EQ(in_pieces.violation, "");
      shape.max_skipped = 1;
      EXPECT_EQ(in_pieces.bytes(), run_spoilt(shape, none, dev.get(), 1, {.faults = false}).bytes()) << rule << " " << precision;
      shape.max_skipped = 0;
      for (const std::int64_t element : {0, 32767, 32768, 70000}) {
        spoilt_gradient bad;
        bad.steps = {1}, bad.at = element;
        EXPECT_THAT(
            run_spoilt(shape, bad, dev.get(), 1, {.faults = false}).error,
            ::testing::StartsWith("the gradient of layer 'loss0', parameter 'weight', is not finite at step 2: the job ends "
                                  "because [train] max_skipped is 0; training diverges: "))
            << rule << ", element " << element;
      }
    }
}

TEST(skipped_steps, are_counted_once_and_per_consecutive_run) {
  skipped_steps s;
  const skipped_steps::whose shards{false, 0}, worker{true, 0};
  EXPECT_EQ(s.note(shards, 4), 1u);
  EXPECT_EQ(s.note(shards, 4), std::nullopt) << "another shard reports the same step";
  EXPECT_EQ(s.note(shards, 5), 2u);
  EXPECT_EQ(s.note(shards, 3), std::nullopt) << "late";
  EXPECT_EQ(s.note(worker, 4), 1u) << "a worker has a separate count";
  EXPECT_EQ(s.note(shards, 7), 1u) << "the step between them was finite";
  EXPECT_EQ(s.total(), 4u);
}

}  // namespace
}  // namespace troupe::testing
