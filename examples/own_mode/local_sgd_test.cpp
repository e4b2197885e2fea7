// Tests the invariants of local_sgd in the simulator: every seed gives another order of delivery,
// and messages of the mode are duplicated.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ops/device.hpp"
#include "runtime/job/job.hpp"
#include "runtime/job/plugin_abi.hpp"
#include "runtime/sim/world.hpp"

namespace {

using namespace troupe;

// The tables of a host: the stock entries and those of the plugin.
std::shared_ptr<const tables> all_tables() {
  static const auto all = [] {
    auto t = std::make_shared<tables>(stock_tables());
    register_plugin(*t);
    return t;
  }();
  return all;
}

options with(std::vector<std::pair<std::string, option_value>> values, const option_specs& specs) {
  options o;
  for (auto& [k, v] : values) o.values.emplace(std::move(k), std::move(v));
  return check_options(o, specs);
}
option_value n(std::int64_t v) { return v; }

layer_spec layer_of(std::string name, std::string type, std::vector<std::string> inputs, std::int64_t outputs = 0) {
  layer_spec l;
  l.values = with(outputs ? std::vector<std::pair<std::string, option_value>>{{"outputs", n(outputs)}}
                          : std::vector<std::pair<std::string, option_value>>{},
                  all_tables()->layers.find(type)->specs);
  l.name = std::move(name);
  l.type = std::move(type);
  l.inputs = std::move(inputs);
  return l;
}

struct shape_of_run {
  std::string mode = "local_sgd", rule = "momentum";
  std::int64_t every = 3;
  std::uint32_t workers = 2, shards = 1, packets = 4;
  std::int64_t steps = 12;
};

// The job as a job_spec, instead of a job file.
job_spec job_of(const shape_of_run& s) {
  const auto& t = *all_tables();
  job_spec j;
  j.file = "local_sgd_test";
  j.name = "local-sgd";
  j.data.source = "synthetic";
  j.data.values =
      with({{"shape", std::vector<std::int64_t>{1, 5, 5}}, {"classes", n(3)}, {"examples", n(96)}, {"test_examples", n(12)}},
           t.sources.find("synthetic")->specs);
  j.data.batch = 2 * s.packets;
  j.data.sampler = {"shuffle", with({}, t.samplers.find("shuffle")->specs), {}};
  j.layers = {layer_of("hidden", "linear", {"data"}, 7), layer_of("act", "relu", {"hidden"}),
              layer_of("score", "linear", {"act"}, 3), layer_of("loss", "softmax_loss", {"score", "label"})};
  j.train.rule = {s.rule, with({}, t.rules.find(s.rule)->specs), {}};
  j.train.lr = 0.05;
  j.train.schedule = {"fixed", with({}, t.schedules.find("fixed")->specs), {}};
  j.train.finish.steps = s.steps;
  const auto& mode = t.modes.find(s.mode)->specs;
  j.train.sync = {s.mode, s.mode == "local_sgd" ? with({{"every", n(s.every)}}, mode) : with({}, mode), {}};
  j.pipeline.packets = s.packets;
  j.topology.workers_per_group = s.workers;
  j.topology.servers_per_group = s.shards;
  return j;
}

std::string bytes_of(const tensors& list) {
  std::string all;
  for (const auto& t : list) all.append(static_cast<const char*>(t.raw()), t.bytes());
  return all;
}

// Checks every delivery. It records the first copy of a message; duplicates must have no effect.
class checker {
 public:
  checker(std::shared_ptr<const prepared_job> j, std::uint64_t every) : job_(std::move(j)), every_(every) {}

  std::uint64_t equal = 0, different = 0, means = 0;

  void see(const envelope& e) {
    if (const auto* p = std::get_if<push>(&e.body)) sent_[{p->block, e.h.step}].emplace(e.h.src, p->sum);
    if (const auto* w = std::get_if<weights>(&e.body)) check_mean(e.h, *w);
    if (const auto* l = std::get_if<layer_weights>(&e.body)) check_replicas(e.h, *l);
  }

 private:
  // The reply of step s must be the mean of the weights that all workers sent at step s, each
  // counted once.
  void check_mean(const header& h, const weights& w) {
    if (h.step == 0) return;
    const auto& from = sent_[{w.block, h.step}];
    ASSERT_EQ(from.size(), job_->plan.workers.size())
        << "replied before all pushes had arrived: step " << h.step << " block " << w.block;
    for (std::int64_t i = 0; i < w.value.count(); ++i) {
      double sum = 0;
      for (const auto& [worker, t] : from) sum += static_cast<double>(t.data<float>()[i]);
      ASSERT_NEAR(static_cast<double>(w.value.data<float>()[i]), sum / static_cast<double>(from.size()), 1e-6);
    }
    ++means;
  }

  // At a multiple of `every` all workers must have the same bits; in between they differ.
  void check_replicas(const header& h, const layer_weights& l) {
    if (h.version == 0 || l.values.empty()) return;
    const auto mine = bytes_of(l.values);
    const auto [at, first] = handed_.try_emplace({l.layer, h.version}, mine);
    if (first) return;
    const bool same = at->second == mine;
    if (h.version % every_ == 0) {
      ASSERT_TRUE(same) << "replicas differ after the averaging at " << h.version;
      ++equal;
    } else {
      different += same ? 0 : 1;
    }
  }

  std::shared_ptr<const prepared_job> job_;
  std::uint64_t every_;
  std::map<std::pair<std::uint32_t, std::uint64_t>, std::map<role_id, tensor>> sent_;
  std::map<std::pair<std::uint32_t, std::uint64_t>, std::string> handed_;
};

struct result {
  std::string weights;
  std::vector<float> values;
  std::vector<std::string> events;
};

class local_sgd : public ::testing::Test {
 protected:
  local_sgd() : dev_(make_cpu_device()) {}

  std::shared_ptr<prepared_job> prepare(const shape_of_run& s) {
    std::vector<node_spec> nodes(s.workers);  // one worker on each; the first node also has coordinator and shards
    for (std::uint32_t i = 0; i < s.workers; ++i) {
      nodes[i].name = "n" + std::to_string(i + 1);
      if (i > 0) nodes[i].roles = {"worker"};
    }
    auto made = prepare_job(job_of(s), all_tables(), nodes);
    if (!made) {
      ADD_FAILURE() << made.error().front().to_string();
      return nullptr;
    }
    return *made;
  }

  // An action after a step is complete: a command of an operator.
  struct happening {
    std::uint64_t step = 0;
    std::function<void(sim::world&)> what;
  };
  static happening said(std::uint64_t step, command c) {
    return {step, [c](sim::world& w) { tell(w, c); }};
  }
  static void tell(sim::world& w, message m) {
    envelope e;
    e.h.dst = role_id{0};  // the coordinator
    e.body = std::move(m);
    w.inject(std::move(e));
  }

  result run(const shape_of_run& s, std::uint64_t seed, bool twice = false, checker* c = nullptr,
             const std::vector<happening>& happens = {}) {
    const auto j = prepare(s);
    sim::world_config config;
    config.seed = seed;
    config.dev = dev_.get();
    sim::world w(config);
    for (const auto& r : j->plan.roles) w.add(r.id, r.node, make_role(j, r.id));
    if (twice)
      w.copies = [this](const envelope& e, sim::random& r) {
        const bool of_the_mode = std::holds_alternative<push>(e.body) || std::holds_alternative<fetch>(e.body) ||
                                 std::holds_alternative<weights>(e.body) || std::holds_alternative<state>(e.body);
        if (!of_the_mode || r.below(3) > 0) return 1;
        ++doubled_;
        return 2;
      };
    result out;
    bool done = false;
    std::uint64_t step = 0;
    w.on_deliver = [&](const envelope& e, time_point) {
      if (c) c->see(e);
    };
    w.on_event = [&](const event_effect& e) {
      if (e.is<step_event>())
        step = e.step;
      else
        out.events.push_back(std::string(name_of(e).name) + (message_of(e).empty() ? "" : " " + message_of(e)));
      done = done || e.is<done_event>() || e.is<error_event>();
    };
    w.on_store = [&](const store_effect& e) {
      if (e.what != store_effect::kind_of::weights) return;
      for (const auto& [name, t] : e.named) {
        out.weights.append(static_cast<const char*>(t.raw()), t.bytes());
        out.values.insert(out.values.end(), t.data<float>(), t.data<float>() + t.count());
      }
    };
    tell(w, start{});
    for (const auto& h : happens) {
      EXPECT_TRUE(w.run(1'000'000, [&] { return step >= h.step; }));
      h.what(w);
    }
    EXPECT_TRUE(w.run(1'000'000, [&] { return done; })) << "no end, seed " << seed;
    EXPECT_TRUE(done) << "no events are left, seed " << seed;
    return out;
  }

  std::unique_ptr<device> dev_;
  std::uint64_t doubled_ = 0;
};

TEST_F(local_sgd, replicas_are_equal_after_an_averaging_under_delays_and_duplicates) {
  std::uint64_t equal = 0, different = 0, means = 0, seed = 0;
  for (std::uint32_t k = 0; k < 8; ++k) {
    shape_of_run s;
    s.workers = 2 + k % 4;
    s.packets = s.workers + k / 4;
    s.shards = 1 + k % 3;
    s.every = 2 + k % 3;
    const auto want = run(s, 1).weights;
    ASSERT_FALSE(want.empty());
    for (int i = 0; i < 25; ++i) {
      ++seed;
      checker c(prepare(s), static_cast<std::uint64_t>(s.every));
      ASSERT_EQ(run(s, seed, true, &c).weights, want) << "seed " << seed << ", " << s.workers << " workers";
      ASSERT_FALSE(HasFatalFailure()) << "seed " << seed;
      equal += c.equal, different += c.different, means += c.means;
    }
  }
  EXPECT_GT(equal, 1000u);
  EXPECT_GT(different, 1000u) << "replicas never differ between two averagings";
  EXPECT_GT(means, 1000u);
  EXPECT_GT(doubled_, 1000u);
}

TEST_F(local_sgd, one_worker_equals_plain_training) {
  shape_of_run s, plain;
  s.workers = plain.workers = 1;
  s.shards = plain.shards = 2;
  plain.mode = "bsp";
  EXPECT_EQ(run(s, 1).weights, run(plain, 2).weights);
}

// The mean of w - lr g_i is w - lr times the mean of g_i, so averaging after every step with a
// stateless rule equals bsp.
TEST_F(local_sgd, averaging_every_step_without_momentum_equals_bsp_to_rounding) {
  shape_of_run s, plain;
  s.every = 1;
  s.rule = plain.rule = "sgd";
  s.workers = plain.workers = 4;
  plain.mode = "bsp";
  const auto a = run(s, 1).values, b = run(plain, 1).values;
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], 1e-5f) << i;
}

TEST_F(local_sgd, a_job_switches_to_the_mode_and_back) {
  shape_of_run s;
  s.mode = "bsp";
  s.steps = 40;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const auto r =
        run(s, seed, true, nullptr, {said(5, {mode_command{{"local_sgd", {{"every", "4"}}}}}), said(20, {mode_command{{"bsp"}}})});
    std::vector<std::string> modes;
    for (const auto& e : r.events)
      if (e.starts_with("mode") || e.starts_with("refused") || e.starts_with("error")) modes.push_back(e);
    ASSERT_EQ(modes, (std::vector<std::string>{"mode local_sgd every=4", "mode bsp"})) << "seed " << seed;
  }
}

}  // namespace
