// Invariant of surviving state: whichever nodes a job loses, at any time, it continues from the
// state of the surviving shards and replicas, and its weights equal those of the job without
// failures.
#include <algorithm>
#include <cmath>
#include <random>

#include "runtime/coordinator/surviving_state.hpp"
#include "tests/sim/mode_run.hpp"
#include "tests/sim/moving.hpp"

namespace troupe::testing {
namespace {

struct losing_job {
  job_spec spec;
  std::vector<node_spec> nodes;
  std::vector<wish> wishes;
};

class drawn_losses {
 public:
  explicit drawn_losses(std::uint64_t seed) : random_(seed) {}

  losing_job make(const std::string& mode) {
    losing_job j;
    shape_of_job s;
    const char* rules[] = {"sgd", "momentum", "adam", "rmsprop"};
    s.workers = static_cast<std::uint32_t>(draw(1, 3)), s.shards = static_cast<std::uint32_t>(draw(1, 3));
    if (mode.starts_with("group_sync") || mode.starts_with("hogwild")) s.packets = 6;
    s.steps = 30, s.rule = rules[draw(0, 3)], s.eval_every = draw(0, 1) == 0 ? 0 : 7;
    j.spec = small_spec(s);
    amendments a;
    set_mode(a, mode_choice::of(mode));
    j.spec.train.sync = {a.mode, options_from_text(a.mode_options, shared_tables()->modes.find(a.mode)->specs), {}};
    j.spec.topology.replicas = draw(1, 3);
    if (draw(0, 3) == 0 && mode != "sandblaster" && mode == "bsp") j.spec.train.clip.norm = 0.5;
    if (shared_tables()->modes.find(a.mode)->averages && draw(0, 1) == 0) draw_average(j.spec.train.average);
    const auto count = draw(3, 5);
    const bool apart = a.mode == "group_sync" || a.mode == "hogwild";
    if (apart) {
      auto& t = j.spec.topology;
      t.worker_groups = t.server_groups = static_cast<std::int64_t>(s.workers);
      t.workers_per_group = a.mode == "hogwild" ? 1 : draw(1, 2);
      if (a.mode == "hogwild") t.servers_per_group = 1;
    }
    if (apart || a.mode == "gossip") j.spec.topology.replicas = 1;
    for (std::int64_t i = 0; i < count; ++i) {
      node_spec n;
      n.name = "n" + std::to_string(i + 1);
      if (i > 0) n.roles = draw(0, 2) == 0 ? std::vector<std::string>{"worker"} : std::vector<std::string>{"worker", "server"};
      j.nodes.push_back(n);
    }
    std::uint64_t after = 0;
    std::vector<std::string> away;
    for (auto k = draw(1, 3); k > 0; --k) {
      after += static_cast<std::uint64_t>(draw(1, 9));
      std::set<std::string> lost;
      for (auto more = draw(1, 2); more > 0; --more) lost.insert("n" + std::to_string(draw(2, count)));
      j.wishes.push_back({after, {loss_of(lost)}, later()});
      if (draw(0, 1) == 0) j.wishes.push_back({after + 1, {add_node_command{*lost.begin()}}});
    }
    return j;
  }

 private:
  void draw_average(average_spec& a) {
    a.kind = draw(0, 1) == 0 ? "ema" : "swa";
    a.decay = 0.8;
    a.bias_correction = a.kind == "ema" && draw(0, 1) == 0;
    a.start = draw(0, 12), a.every = draw(1, 3);
    a.evaluate = draw(0, 1) == 0 ? "average" : "both";
  }
  std::int64_t draw(std::int64_t least, std::int64_t most) {
    return least + static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(most - least + 1));
  }
  // From a microsecond to ten milliseconds, log-uniform, so that all phases of a step are met.
  duration later() {
    return duration(static_cast<std::int64_t>(std::pow(10.0, 3 + 4 * static_cast<double>(draw(0, 1000)) / 1000)));
  }
  std::mt19937_64 random_;
};

std::shared_ptr<prepared_job> prepared_losing(const losing_job& j) {
  auto made = prepare_job(j.spec, shared_tables(), j.nodes);
  if (!made) {
    ADD_FAILURE() << made.error().front().to_string();
    return nullptr;
  }
  return *made;
}

class laws_surviving_state : public ::testing::Test {
 protected:
  sim::world_config world_of(std::uint64_t seed) const {
    sim::world_config c;
    c.seed = seed;
    c.dev = dev.get();
    return c;
  }
  // Returns the number of node failures that the job survived; null: it stopped because no node had
  // all of its state.
  std::optional<std::size_t> check(const std::string& mode, std::uint64_t seed, bool exact) {
    SCOPED_TRACE(mode + ", seed " + std::to_string(seed));
    const auto j = drawn_losses(seed).make(mode);
    const auto got = run_moved(prepared_losing(j), j.wishes, world_of(seed));
    if (!got.nothing_left.empty()) {
      // All copies of a shard are lost, or the failure was too early or too late.
      const bool known = got.nothing_left.find(" was on node ") != std::string::npos || got.nothing_left == "the job was ending" ||
                         got.nothing_left.find(" has not received its parameters yet") != std::string::npos;
      EXPECT_TRUE(known) << got.nothing_left;
      return std::nullopt;
    }
    EXPECT_TRUE(got.done && !got.events.empty() && got.events.back().is<done_event>())
        << (got.events.empty() ? "" : message_of(got.events.back()));
    const auto steps = losses(got);
    const auto again =
        std::adjacent_find(steps.begin(), steps.end(), [](const auto& a, const auto& b) { return a.first >= b.first; });
    EXPECT_TRUE(again == steps.end()) << "step " << again->first << " is reported twice";
    if (exact) {
      const auto still = run_in_world(prepared_losing(j), world_of(seed));
      EXPECT_TRUE(got.bytes() == still.bytes()) << "the weights differ";
      EXPECT_EQ(got.first_uneven, 0u) << "every step is reported once";
      EXPECT_EQ(losses(got), losses(still));
      if (!mode.starts_with("ssp")) {  // its tester's weights change during training
        EXPECT_EQ(evals(got), evals(still));
      }
    }
    std::size_t n = 0;
    for (const auto& m : got.moved) n += m.starts_with("continued without") ? 1 : 0;
    return n;
  }
  static std::vector<std::pair<std::uint64_t, double>> announced(const run_result& r, const std::string& kind,
                                                                 const std::string& what) {
    std::vector<std::pair<std::uint64_t, double>> all;
    for (const auto& e : r.events)
      for (const auto& [name, value] : flatten(e).values)
        if (name_of(e).name == kind && name == what) all.emplace_back(e.step, value);
    return all;
  }
  static std::vector<std::pair<std::uint64_t, double>> losses(const run_result& r) { return announced(r, "step", "loss"); }
  static std::vector<std::pair<std::uint64_t, double>> evals(const run_result& r) { return announced(r, "eval", "accuracy"); }

  void check_many(const std::string& mode, bool exact, std::uint64_t count) {
    std::size_t survived = 0, stood = 0;
    for (auto seed = first_seed(); seed < first_seed() + seeds(count) && !HasFailure(); ++seed) {
      const auto n = check(mode, seed, exact);
      survived += n.value_or(0);
      stood += n ? 0 : 1;
    }
    std::printf("%s: survived %zu node failures; %zu jobs lost all copies of a shard\n", mode.c_str(), survived, stood);
    EXPECT_GT(survived, 0u);
  }
  const std::shared_ptr<device> dev = make_cpu_device();
};

TEST_F(laws_surviving_state, bsp_continues_with_the_same_bits) { check_many("bsp", true, 150); }
TEST_F(laws_surviving_state, sandblaster_continues_with_the_same_bits) { check_many("sandblaster", true, 60); }
TEST_F(laws_surviving_state, ssp_continues) {
  check_many("ssp staleness=0", true, 40);
  check_many("ssp staleness=3", false, 60);
}
TEST_F(laws_surviving_state, downpour_and_easgd_continue) {
  check_many("downpour", false, 60);
  check_many("easgd tau=3 alpha=0.3", false, 60);
}
// Modes whose weights are with the workers, in arrays of the nodes, or in several server groups.
TEST_F(laws_surviving_state, jobs_without_one_centre_continue) {
  check_many("gossip every=2", false, 60);
  check("gossip every=2", 1554, false);  // a node failure while the last weights are collected
  check_many("group_sync sync_freq=3", false, 60);
  check_many("hogwild sync_freq=3", false, 60);
}

}  // namespace
}  // namespace troupe::testing
