// No job hangs: a node that restarts without state that only it had ends the job with an error that
// names the node and the role, in every mode; a job whose state can be restored continues.
#include "tests/sim/mode_checkers.hpp"

namespace troupe::testing {
namespace {

struct mode_case {
  const char* name;
  mode_shape shape;
};

// Every mode; shards are on their own nodes, or on the workers' nodes if the mode requires that.
std::vector<mode_case> all_modes() {
  return {{"bsp", {.mode = "bsp"}},
          {"bsp, adam and several blocks", {.mode = "bsp", .layers = 3, .rule = "adam"}},
          {"tree", {.mode = "bsp", .reducer = "tree"}},
          {"ssp", {.mode = "ssp", .options = {{"staleness", "2"}}}},
          {"sandblaster", {.mode = "sandblaster"}},
          {"downpour", {.mode = "downpour", .options = {{"n_push", "2"}}}},
          {"easgd async", {.mode = "easgd", .options = {{"alpha", "0.2"}, {"tau", "2"}}}},
          {"easgd sync", {.mode = "easgd", .options = {{"tau", "2"}, {"variant", "sync"}}}},
          {"eamsgd", {.mode = "eamsgd", .options = {{"alpha", "0.1"}, {"tau", "3"}}, .rule = "nesterov"}},
          {"gossip", {.mode = "gossip", .options = {{"every", "2"}}}},
          {"group_sync", {.mode = "group_sync", .options = {{"sync_freq", "3"}}}},
          {"hogwild", {.mode = "hogwild"}}};
}

mode_shape shaped(std::uint64_t seed, mode_shape s) {
  const bool by_groups = s.mode == "group_sync" || s.mode == "hogwild";
  s = draw_shape(seed, std::move(s));
  s.workers = 2 + s.workers % 5;
  s.packets = 2 * s.workers;
  s.sub_solvers = 2;
  s.lr = 0.01;
  s.apart = !by_groups;
  if (by_groups) {
    s.groups = s.server_groups = s.workers;
    s.shards = 1;
  }
  if (s.mode == "downpour") s.groups = s.workers;
  return s;
}

TEST(laws_restart, restarted_shard_ends_the_job_and_names_its_node_in_every_mode) {
  const auto dev = make_cpu_device();
  for (const auto& mode : all_modes()) {
    SCOPED_TRACE(mode.name);
    std::uint64_t ended = 0, crashes = 0;
    for (const auto seed : law_seeds()) {
      const auto shape = shaped(seed, mode.shape);
      const auto job = prepare_mode(shape);
      ASSERT_TRUE(job);
      std::mt19937_64 g(seed * 6151 + 5);
      const auto& shard = job->plan[job->plan.shards[g() % job->plan.shards.size()]];
      ASSERT_GT(shard.node, 0u);
      const duration at(static_cast<std::int64_t>(g() % 6'000'000)), later(static_cast<std::int64_t>(1'000 + g() % 2'000'000));
      mode_run r{.job = job, .config = draw_world(seed, shape.workers, dev.get(), {.crash = false})};
      r.prepare = [&](sim::world& w) { crash_and_restart(w, shard.node, at, later); };
      const auto got = run(r);
      const bool crashed = got.counts.crashed > 0;
      crashes += crashed;
      if (got.error.empty()) {  // the job had ended, or the shard's state had been collected
        ASSERT_EQ(got.violation, "") << "seed " << seed;
        continue;
      }
      ++ended;
      ASSERT_TRUE(crashed) << "seed " << seed << ": " << got.error;
      ASSERT_EQ(got.error, "node " + job->plan.nodes[shard.node].name + " is lost: " + shard.name +
                               " was restarted, and its parameters are lost")
          << "seed " << seed;
      ASSERT_LT(got.took, at + later + std::chrono::seconds(1)) << "seed " << seed;
    }
    std::printf("%-20s %llu of %llu crashes ended the job\n", mode.name, static_cast<unsigned long long>(ended),
                static_cast<unsigned long long>(crashes));
    EXPECT_GT(ended, seeds() / 4);
    EXPECT_GE(ended + seeds() / 20, crashes);
  }
}

TEST(laws_restart, restarted_coordinator_ends_the_job_and_names_its_node) {
  const auto dev = make_cpu_device();
  for (const auto seed : law_seeds(50)) {
    const auto shape = draw_shape(seed, {.mode = seed % 2 ? "bsp" : "downpour", .steps = 20});
    mode_run r{.job = prepare_mode(shape), .config = draw_world(seed, shape.workers, dev.get(), {.crash = false})};
    r.prepare = [&](sim::world& w) {
      crash_and_restart(w, 0, duration(static_cast<std::int64_t>(seed * 7919 % 1'000'000)), duration(100'000));
    };
    const auto got = run(r);
    ASSERT_EQ(got.error, "node n1 is lost: coordinator was restarted, and its record of the job is lost") << "seed " << seed;
  }
}

TEST(laws_restart, node_that_stays_down_ends_the_job_and_the_error_names_its_role) {
  const auto dev = make_cpu_device();
  for (const auto& [node, want] :
       std::vector<std::pair<std::uint32_t, std::string>>{{0, "node n1 is lost: it crashed; the coordinator is gone"},
                                                          {1, "node n2 is lost: it crashed; it hosted worker0"},
                                                          {3, "node n4 is lost: it crashed; it hosted shard0"}}) {
    const mode_shape shape{.mode = "bsp", .apart = true};
    mode_run r{.job = prepare_mode(shape), .config = draw_world(1, 0, dev.get())};
    r.prepare = [n = node](sim::world& w) { w.at(duration(500'000), [&w, n] { w.crash(n); }); };
    const auto got = run(r);
    EXPECT_EQ(got.error, want);
    EXPECT_EQ(got.took, duration(500'000) + std::chrono::seconds(5));
  }
}

// Counts the rounds that were requested again from a restarted tester.
class restarted_testers final : public checker {
 public:
  std::uint64_t asked_again = 0;

 private:
  void watch(const seen_event& s, const prepared_job& j) override {
    if (!is(j.plan, s.self, role_kind::tester)) return;
    if (std::holds_alternative<start>(s.in.body)) restarted_ = true;
    const auto* e = std::get_if<evaluate>(&s.in.body);
    if (!e) return;
    if (e->round == last_ && std::exchange(restarted_, false)) ++asked_again;
    last_ = e->round;
  }
  bool restarted_ = false;
  std::uint64_t last_ = 0;
};

// Every due evaluation is reported once, in order, whichever roles restart during it; the tester is
// colocated with the last worker.
TEST(laws_restart, evaluations_finish_when_workers_and_the_tester_restart) {
  const auto dev = make_cpu_device();
  fault_sums sums;
  std::uint64_t in_a_round = 0;
  for (const auto seed : law_seeds()) {
    static const std::vector<mode_shape> modes{{.mode = "bsp"},      {.mode = "ssp", .options = {{"staleness", "1"}}},
                                               {.mode = "downpour"}, {.mode = "easgd", .options = {{"alpha", "0.2"}, {"tau", "2"}}},
                                               {.mode = "gossip"},   {.mode = "sandblaster"}};
    auto shape = draw_shape(seed, modes[seed % modes.size()]);
    shape.lr = 0.01;
    shape.test = 11 + static_cast<std::int64_t>(seed % 40);
    shape.eval_every = 3;
    auto config = draw_world(seed, shape.workers, dev.get());
    sim::fault f;
    f.kind = sim::fault_kind::crash;
    f.from = duration(200'000), f.until = duration(9'000'000);
    f.nodes = {shape.workers};  // the node of the last worker and the tester
    f.restart_after = duration(50'000 + static_cast<std::int64_t>(seed % 9) * 100'000);
    f.times = 1 + static_cast<std::uint32_t>(seed % 4);
    config.faults.list.push_back(f);
    const auto job = prepare_mode(shape);
    mode_run r{.job = job, .config = config};
    std::uint64_t last = 0;
    r.on_event = [&](sim::world&, const event_effect& e) {
      if (!e.is<eval_event>()) return;
      EXPECT_GT(e.step, last) << "seed " << seed;
      last = e.step;
    };
    restarted_testers again;
    r.checkers = {&again};
    const auto got = run(r);
    ASSERT_EQ(got.violation, "") << "seed " << seed << " " << shape.mode;
    ASSERT_EQ(last, shape.steps) << "seed " << seed << " " << shape.mode;
    in_a_round += again.asked_again;
    sums.add(got.counts);
  }
  std::printf("%llu testers were restarted in a round\n", static_cast<unsigned long long>(in_a_round));
  if (seeds() >= 50) {
    EXPECT_GT(in_a_round, 0u);
  }
  sums.expect_all();
}

}  // namespace
}  // namespace troupe::testing
