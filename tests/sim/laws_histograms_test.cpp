// Invariants of histograms (coordinator/histogram_sheets.hpp): a parameter's counts add up to its
// size for any number of workers, shards and blocks, in every mode; in bsp they, min and max are
// the same for every placement; histograms change no weight. A planted mistake is found.
#include <cmath>
#include <map>
#include <numeric>

#include "runtime/messages/value_histogram.hpp"
#include "runtime/reduce/histogram.hpp"
#include "tests/sim/mode_run.hpp"
#include "tests/sim/moving.hpp"
#include "tests/sim/written_weights.hpp"

namespace troupe::testing {
namespace {

struct counted_mode {
  const char* name;
  text_options options;
  bool gradients;
};

const counted_mode counted_modes[] = {{"bsp", {}, true},
                                      {"ssp", {{"staleness", "2"}}, true},
                                      {"sandblaster", {}, true},
                                      {"downpour", {{"n_push", "2"}, {"n_fetch", "2"}}, true},
                                      {"group_sync", {{"sync_freq", "4"}}, true},
                                      {"easgd", {{"tau", "3"}, {"alpha", "0.4"}}, false},
                                      {"gossip", {{"every", "3"}}, false},
                                      {"hogwild", {{"sync_freq", "3"}}, false}};

std::shared_ptr<prepared_job> counted_job(const counted_mode& m, std::uint32_t workers, std::uint32_t shards, std::uint64_t every,
                                          std::int64_t max_block = 0) {
  shape_of_job s;
  s.shards = shards;
  s.steps = 12;
  s.eval_every = 5;
  auto spec = small_spec(s);
  const std::string name = m.name;
  const bool groups = name == "downpour" || name == "group_sync" || name == "hogwild";
  (groups ? spec.topology.worker_groups : spec.topology.workers_per_group) = workers;
  if (name == "group_sync" || name == "hogwild") spec.topology.server_groups = workers;
  if (max_block > 0) spec.topology.max_block = max_block;
  spec.train.sync = {name, options_from_text(m.options, shared_tables()->modes.find(name)->specs), {}};
  auto made = prepare_job(spec, shared_tables(), nodes_named(workers));
  if (!made) {
    ADD_FAILURE() << made.error().front().to_string();
    return nullptr;
  }
  auto j = *made;
  j->histograms_every = every;
  return j;
}

// By step and name ("~" before that of a gradient).
using histograms_of_run = std::map<std::pair<std::uint64_t, std::string>, value_histogram>;

histograms_of_run histograms_in(const run_result& r) {
  histograms_of_run all;
  for (const auto& e : r.events) {
    const auto* h = e.as<histogram_event>();
    if (!h) continue;
    EXPECT_TRUE(all.try_emplace({e.step, (h->gradient ? "~" : "") + h->parameter}, h->values).second)
        << h->parameter << " twice at step " << e.step;
  }
  return all;
}

// Returns what is wrong with the counts; empty if nothing is.
std::string untrue_counts(const prepared_job& j, const histograms_of_run& all, bool gradients) {
  std::map<std::uint64_t, std::size_t> of_step;
  for (const auto& [at, h] : all) {
    const auto name = at.second.starts_with("~") ? at.second.substr(1) : at.second;
    ++of_step[at.first];
    for (const auto& p : j.graph.params) {
      if (p.full_name != name) continue;
      if (!sound(h, static_cast<std::uint64_t>(p.spec.dims.count())))
        return at.second + " of step " + std::to_string(at.first) + " counts " + std::to_string(h.count) + " values";
    }
  }
  for (const auto& [step, n] : of_step)
    if (n != j.graph.params.size() * (gradients ? 2 : 1)) return std::to_string(n) + " histograms at step " + std::to_string(step);
  return all.empty() ? "no histograms" : "";
}

// Equal but for the last bits of the sums.
bool same_histogram(value_histogram a, value_histogram b) {
  const auto near = [](double x, double y) { return std::abs(x - y) <= 1e-9 * (1 + std::abs(x)); };
  if (!near(a.sum, b.sum) || !near(a.sum_squares, b.sum_squares)) return false;
  a.sum = b.sum = a.sum_squares = b.sum_squares = 0;
  return a == b;
}

bool same_histograms(const histograms_of_run& a, const histograms_of_run& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const auto& x, const auto& y) { return x.first == y.first && same_histogram(x.second, y.second); });
}

TEST(laws_histograms, count_every_value_once_in_every_mode) {
  const auto dev = make_cpu_device();
  for (const auto& m : counted_modes)
    for (const auto seed : law_seeds(20)) {
      const auto j = counted_job(m, 1 + static_cast<std::uint32_t>(seed % 4), 1 + static_cast<std::uint32_t>(seed / 4 % 3), 3);
      ASSERT_TRUE(j) << m.name;
      const auto got = run({.job = j, .config = draw_world(seed, 0, dev.get())});
      ASSERT_EQ(got.violation, "") << m.name << ", seed " << seed;
      const auto all = histograms_in(got);
      ASSERT_EQ(untrue_counts(*j, all, m.gradients), "") << m.name << ", seed " << seed;
      if (!shared_tables()->modes.find(m.name)->lockstep) continue;
      for (std::uint64_t step = 3; step <= 12; step += 3) ASSERT_TRUE(all.contains({step, "conv1.weight"})) << step;
    }
}

TEST(laws_histograms, of_bsp_do_not_depend_on_the_placement) {
  const auto dev = make_cpu_device();
  const auto& bsp = counted_modes[0];
  const auto want = run({.job = counted_job(bsp, 1, 1, 2), .config = draw_world(1, 0, dev.get())});
  const auto all = histograms_in(want);
  ASSERT_EQ(all.size(), 6u * 2u * 8u);  // steps 2 to 12, weights and gradients of four layers
  for (const auto seed : law_seeds(60)) {
    const auto workers = 1 + static_cast<std::uint32_t>(seed % 4), shards = 1 + static_cast<std::uint32_t>(seed / 4 % 3);
    const auto j = counted_job(bsp, workers, shards, 2, seed % 2 == 0 ? 64 : 0);
    const auto got = run({.job = j, .config = draw_world(seed, j->plan.nodes.size() > 1 ? 1 : 0, dev.get())});
    ASSERT_EQ(got.violation, "") << "seed " << seed;
    ASSERT_TRUE(same_histograms(histograms_in(got), all)) << "seed " << seed << ", " << j->plan.blocks.size() << " blocks";
  }
}

TEST(laws_histograms, change_no_weight) {
  const auto dev = make_cpu_device();
  for (const auto& m : {counted_modes[0], counted_modes[2]})
    for (const auto seed : law_seeds(10)) {
      const auto config = draw_world(seed, 0, dev.get());
      const auto got = run({.job = counted_job(m, 3, 2, 1), .config = config});
      const auto want = run({.job = counted_job(m, 3, 2, 0), .config = config});
      ASSERT_EQ(got.violation + want.violation, "") << m.name << ", seed " << seed;
      ASSERT_EQ(got.bytes(), want.bytes()) << m.name << ", seed " << seed;
      ASSERT_TRUE(histograms_in(want).empty());
    }
}

TEST(laws_histograms, answer_a_request_in_every_mode) {
  const auto dev = make_cpu_device();
  for (const auto& m : counted_modes)
    for (const auto seed : law_seeds(12)) {
      const auto j = counted_job(m, 1 + static_cast<std::uint32_t>(seed % 3), 2, 0);
      mode_run r{.job = j, .config = draw_world(seed, 0, dev.get())};
      const auto at = 1 + seed % 5;
      r.on_event = [&](sim::world& w, const event_effect& e) {
        if (e.is<step_event>() && e.step == at) say(w, {histograms_command{}});
      };
      const auto got = run(r);
      ASSERT_EQ(got.violation, "") << m.name << ", seed " << seed;
      ASSERT_EQ(untrue_counts(*j, histograms_in(got), m.gradients), "") << m.name << ", seed " << seed;
    }
}

// The weights that a lockstep job writes are those of its last version.
TEST(laws_histograms, of_the_last_step_are_those_of_the_written_weights) {
  const auto dev = make_cpu_device();
  for (const auto& m : {counted_modes[0], counted_modes[2]})
    for (const auto seed : law_seeds(10)) {
      const auto j = counted_job(m, 1 + static_cast<std::uint32_t>(seed % 3), 2, 4, seed % 2 == 0 ? 64 : 0);
      const auto got = run({.job = j, .config = draw_world(seed, 0, dev.get())});
      ASSERT_EQ(got.violation, "") << m.name << ", seed " << seed;
      const auto all = histograms_in(got);
      ASSERT_FALSE(got.weights.empty());
      for (const auto& [name, value] : got.weights)
        ASSERT_TRUE(same_histogram(all.at({12, name}), count_values(value))) << m.name << ", seed " << seed << ", " << name;
    }
}

// The mean gradient of a tally layer at any step: 1 / packets in one element per packet, else 0.
TEST(laws_histograms, of_gradients_count_the_mean_over_the_packets) {
  const auto dev = make_cpu_device();
  for (const auto seed : law_seeds(30)) {
    const auto shape = draw_shape(seed, {.mode = "bsp", .net = "tally"});
    const auto j = prepare_mode(shape);
    ASSERT_TRUE(j);
    j->histograms_every = 1;
    const auto got = run({.job = j, .config = draw_world(seed, 0, dev.get())});
    ASSERT_EQ(got.violation, "") << "seed " << seed;
    std::map<std::uint64_t, std::size_t> gradients;  // by step
    for (const auto& [at, h] : histograms_in(got)) {
      if (!at.second.starts_with("~")) continue;
      ++gradients[at.first];
      ASSERT_EQ(h.count - h.zeros, shape.packets) << "seed " << seed;
      ASSERT_EQ(h.max, 1.0 / shape.packets) << "seed " << seed;
      ASSERT_EQ(h.min, 0) << "seed " << seed;
    }
    // Where values reach the host later (tests/apart), the job may end before its last histograms
    // are there.
    for (std::uint64_t step = 1; step < shape.steps; ++step)
      ASSERT_EQ(gradients[step], j->graph.params.size()) << "step " << step << " of " << shape.steps << ", seed " << seed;
  }
}

// A paused job answers at once, with the weights alone; a request before a switch of the mode is
// answered by the new mode.
TEST(laws_histograms, answer_while_paused_and_after_a_switch) {
  const auto dev = make_cpu_device();
  for (const auto seed : law_seeds(12))
    for (const auto& m : {counted_modes[0], counted_modes[1], counted_modes[6]}) {
      const auto j = counted_job(m, 2, 2, 0);
      mode_run r{.job = j, .config = draw_world(seed, 0, dev.get())};
      r.on_event = [&](sim::world& w, const event_effect& e) {
        if (e.is<step_event>() && e.step == 3) say(w, {pause_command{}});
        if (e.is<paused_event>()) say(w, {histograms_command{}});
        if (e.is<histogram_event>() && message_of(e) == "score.bias") say(w, {resume_command{}});
      };
      const auto got = run(r);
      ASSERT_EQ(got.violation, "") << m.name << ", seed " << seed;
      ASSERT_EQ(untrue_counts(*j, histograms_in(got), false), "") << m.name << ", seed " << seed;

      const auto other = counted_job(m, 2, 2, 0);
      mode_run s{.job = other, .config = draw_world(seed, 0, dev.get())};
      s.on_event = [&](sim::world& w, const event_effect& e) {
        if (!e.is<step_event>() || e.step != 3) return;
        say(w, {histograms_command{}});
        say(w, {mode_command{{m.name == std::string("ssp") ? "bsp" : "ssp"}}});
      };
      const auto switched = run(s);
      ASSERT_EQ(switched.violation, "") << m.name << ", seed " << seed;
      ASSERT_FALSE(histograms_in(switched).empty()) << m.name << ", seed " << seed;
    }
}

// A shard that sends the histograms of a block as those of its next block of the same size.
struct wrong_block final : mistake {
  std::map<std::pair<role_id, std::int64_t>, histogram> last;
  void play(role& inner, role_id self, const envelope& in, time_point now, effects& out, const prepared_job& j) override {
    const auto before = static_cast<std::ptrdiff_t>(out.list().size());
    inner.on(in, now, out);
    for (auto e = out.list().begin() + before; e != out.list().end(); ++e) {
      auto* s = std::get_if<send_effect>(&*e);
      auto* h = s ? std::get_if<histogram>(&s->e.body) : nullptr;
      if (!h) continue;
      const auto block = h->block;
      auto& kept = last[{self, j.plan.blocks[block].count}];
      const auto given = std::exchange(kept, *h);
      if (given.weight.count > 0) *h = given;
      h->block = block;
    }
  }
};

TEST(laws_histograms, exchanged_blocks_are_found) {
  const auto dev = make_cpu_device();
  const auto want = histograms_in(run({.job = counted_job(counted_modes[0], 1, 1, 2), .config = draw_world(1, 0, dev.get())}));
  for (std::uint64_t seed = 1; seed < 1000; ++seed) {
    wrong_block wrong;
    const auto j = counted_job(counted_modes[0], 2, 1 + static_cast<std::uint32_t>(seed % 3), 2);
    const auto got = run({.job = j, .config = draw_world(seed, 0, dev.get()), .wrong = &wrong});
    if (same_histograms(histograms_in(got), want)) continue;
    std::printf("exchanged blocks: found at seed %llu\n", static_cast<unsigned long long>(seed));
    return;
  }
  FAIL() << "exchanged blocks have not been found in 1,000 seeds";
}

}  // namespace
}  // namespace troupe::testing
