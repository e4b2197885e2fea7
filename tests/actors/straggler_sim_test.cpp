// Stragglers of a simulated job: the roles are the real ones, the planted time is virtual.
#include <gmock/gmock.h>

#include <map>

#include "runtime/cluster/supervision/straggler_watch.hpp"
#include "tests/actors/embedded_support.hpp"

namespace troupe::testing_embedded {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Eight workers on nodes of their own. Tasks of a layer take 1 to 6 ms, with noise.
class slow_company {
 public:
  std::function<duration(const std::string& role, const task_cost& c)> planted = [](const std::string&, const task_cost&) {
    return duration{};
  };

  explicit slow_company(std::uint64_t seed, const overrides& more = {}) {
    overrides set{"topology.workers_per_group=8", "topology.servers_per_group=8", "pipeline.packets=8",
                  "train.finish.steps=1000000"};
    set.insert(set.end(), more.begin(), more.end());
    job_ = job_of(lenet_like(), set);
    config_.seed = seed;
    config_.dev = dev_.get();
    config_.compute.kind = sim::straggle::lognormal;
    config_.compute.spread = 0.2;
    world_ = std::make_unique<sim::world>(config_);
    for (const auto& r : job_->plan.roles) world_->add(r.id, r.does().owns_parameters ? r.index : r.worker, make_role(job_, r.id));
    world_->measured = [this](role_id r, const task_cost& c) -> std::optional<duration> {
      const auto& name = job_->plan[r].name;
      if (job_->plan[r].does().owns_parameters) return std::chrono::microseconds(20) + planted(name, c);  // one task for each block
      const auto usual = std::chrono::microseconds(1000 + 5000 * (std::hash<std::string>{}(peers_of(name)) % 100) / 100);
      return duration(usual) + planted(name, c);
    };
    world_->on_span = [this](const sim::world::span& s) { busy_[s.who] += seconds_of(s.end - s.begin); };
    world_->on_event = [this](const event_effect& e) {
      if (e.is<step_event>()) step_ = e.step;
      if (e.is<error_event>()) ADD_FAILURE() << message_of(e);
    };
    envelope go;
    go.h.dst = role_id{0};
    go.body = start{};
    world_->inject(go);
  }
  // Runs until this many steps are complete; returns the names of stragglers and the steps at which
  // they were named.
  std::vector<std::pair<std::string, std::uint64_t>> run(std::uint64_t steps) {
    std::vector<std::pair<std::string, std::uint64_t>> named;
    const auto until = step_ + steps;
    while (step_ < until && world_->step()) {
      if (world_->now() - looked_ < std::chrono::milliseconds(250)) continue;
      looked_ = world_->now();
      std::vector<role_load> loads;
      for (const auto& r : job_->plan.roles)
        loads.push_back({"n" + std::to_string(r.worker), r.name, world_->find(r.id)->status().step, busy_[r.id]});
      for (const auto& s : watch_.look(loads, straggler_watch::instant(looked_))) named.emplace_back(s.role, step_);
    }
    return named;
  }
  std::uint64_t step() const { return step_; }

 private:
  std::shared_ptr<prepared_job> job_;
  std::shared_ptr<device> dev_ = make_cpu_device();
  sim::world_config config_;
  std::unique_ptr<sim::world> world_;
  straggler_watch watch_;
  std::map<role_id, double> busy_;
  time_point looked_{};
  std::uint64_t step_ = 0;
};

TEST(straggler_sim, names_what_is_planted_within_20_steps) {
  for (const std::string slow : {"worker3/conv1", "worker6/loader", "shard2"})
    for (std::uint64_t seed = 1; seed <= 3; ++seed) {
      slow_company c(seed);
      EXPECT_THAT(c.run(30), IsEmpty()) << slow;
      bool once = false;  // 200 ms more in a step
      std::uint64_t of = 0;
      c.planted = [&](const std::string& role, const task_cost& cost) {
        const bool here = role.starts_with(slow) && (!slow.ends_with("conv1") || std::string(cost.kind) == "backward");
        if (std::exchange(of, c.step()) != c.step()) once = false;
        return here && !std::exchange(once, true) ? duration(std::chrono::milliseconds(200)) : duration{};
      };
      const auto begun = c.step();
      const auto named = c.run(60);
      ASSERT_EQ(named.size(), 1u) << slow << " seed " << seed;
      EXPECT_TRUE(named[0].first.starts_with(slow)) << named[0].first;
      EXPECT_LE(named[0].second - begun, 20u) << slow;
    }
}

TEST(straggler_sim, names_no_role_while_nothing_is_planted) {
  slow_company c(9, {"eval.every=100"});
  EXPECT_THAT(c.run(1000), IsEmpty());
}

}  // namespace
}  // namespace troupe::testing_embedded
