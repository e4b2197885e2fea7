// Loaders and data server in sim::world, with consumers of different speed as in asynchronous
// modes: the examples that every worker gets, under every order of delivery, with duplicate
// messages and with workers far apart.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <map>
#include <set>

#include "runtime/loader/loader.hpp"
#include "tests/sim/small_job.hpp"

namespace troupe::testing {
namespace {

constexpr std::uint32_t seeds_in_ci = 200;

// Replaces a stage: keeps the packets it gets and returns credit after `pace`.
class sink final : public role {
 public:
  struct got {
    std::uint64_t step = 0;
    std::uint32_t packet = 0;
    bool train = true;
    tensor value;
  };
  sink(role_id self, const job_plan& plan, duration pace, sim::world& w) : self_(self), plan_(plan), pace_(pace), world_(w) {}
  void on(const envelope& e, time_point now, effects&) override {
    if (const auto* f = std::get_if<forward>(&e.body)) {
      list.push_back({e.h.step, e.h.packet, e.h.phase == static_cast<std::uint8_t>(phase::train), f->value});
      last = now;
      const auto& edge = plan_.edges[plan_[self_].in_edges[e.h.port]];
      envelope back;
      back.h.src = self_;
      back.h.dst = edge.from;
      back.h.port = edge.from_port;
      back.h.id = e.h.id;
      back.body = credit{1};
      world_.at(world_.now() + pace_, [this, back] { world_.inject(back); });
    }
  }
  std::vector<got> list;
  time_point last{};

 private:
  role_id self_;
  const job_plan& plan_;
  duration pace_;
  sim::world& world_;
};

// Counts the reads and passes them to the source.
class counted final : public source {
 public:
  explicit counted(std::shared_ptr<const source> s) : of_(std::move(s)) {}
  shape example() const override { return of_->example(); }
  std::int64_t classes() const override { return of_->classes(); }
  std::int64_t size(split s) const override { return of_->size(s); }
  void read(split s, const std::vector<std::int64_t>& i, tensor& data, tensor& label) const override {
    ++reads[s == split::train ? 0 : 1];
    of_->read(s, i, data, label);
  }
  mutable std::atomic<std::uint64_t> reads[2] = {0, 0};  // incremented by tasks, which have their own threads in tests/threaded

 private:
  std::shared_ptr<const source> of_;
};

struct scene {
  std::string kind = "shuffle";
  options given{};
  std::uint32_t workers = 3, packets = 8, sub_solvers = 1;
  std::uint64_t seed = 1, first_step = 0;
  std::vector<duration> paces{duration(1000)};  // by worker, in turn
  bool twice = false;
};

class loaders_of {
 public:
  explicit loaders_of(const scene& s) : scene_(s), dev_(make_cpu_device()), world_(configuration()) {
    shape_of_job shape;
    shape.packets = s.packets;
    shape.workers = s.workers;
    shape.sub_solvers = s.sub_solvers;
    auto spec = small_spec(shape);
    spec.data.sampler = {s.kind, check_options(s.given, shared_tables()->samplers.find(s.kind)->specs), {}};
    std::vector<node_spec> nodes(s.workers + 1);
    for (std::size_t i = 0; i < nodes.size(); ++i) nodes[i].name = "n" + std::to_string(i);
    for (std::size_t i = 0; i < s.workers; ++i) nodes[i].roles = {"coordinator", "worker", "server"};
    nodes.back().roles = {"data"};
    auto made = prepare_job(spec, shared_tables(), nodes);
    if (!made) ADD_FAILURE() << made.error().front().to_string();
    job = *made;
    job->first_step = s.first_step;
    reads = std::make_shared<counted>(job->data);
    job->data = reads;
    const auto& plan = job->plan;
    for (auto l : plan.loaders) world_.add(l, plan[l].node, make_role(job, l));
    if (plan.data_server != no_role) world_.add(plan.data_server, plan[plan.data_server].node, make_role(job, plan.data_server));
    sinks.resize(s.workers);
    for (std::uint32_t w = 0; w < s.workers; ++w)
      for (auto e : plan[plan.loaders[w]].out_edges) {
        const auto to = plan.edges[e].to;
        if (world_.find(to)) continue;
        auto made_sink = std::make_unique<sink>(to, plan, s.paces[w % s.paces.size()], world_);
        if (plan.edges[e].in_train) sinks[w].push_back(made_sink.get());
        world_.add(to, plan[to].node, std::move(made_sink));
      }
    watch();
  }

  void say(role_id to, message m, std::uint64_t version = 0) {
    envelope e;
    e.h.dst = to;
    e.h.version = version;
    e.body = std::move(m);
    world_.inject(e);
  }
  void grant_all(std::uint64_t until) {
    for (auto l : job->plan.loaders) say(l, grant{until});
  }
  void run() { ASSERT_TRUE(world_.run(1'000'000)) << "seed " << scene_.seed; }

  // Expects that every worker got its packets of [from, until) in order, each with the examples
  // that the sampler gives.
  void expect_training(std::uint64_t from, std::uint64_t until) {
    for (std::uint32_t w = 0; w < scene_.workers; ++w) {
      auto order = sampler_of(w);
      const auto range = job->plan.ranges[w];
      for (auto* s : sinks[w]) {
        std::size_t at = 0;
        for (auto step = from; step < until; ++step)
          for (std::uint32_t k = range.first; k < range.first + range.count; ++k, ++at) {
            ASSERT_LT(at, s->list.size()) << scene_.kind << " worker " << w << " seed " << scene_.seed;
            const auto& g = s->list[at];
            ASSERT_EQ(std::pair(g.step, g.packet), std::pair(step, k)) << scene_.kind << " worker " << w << " seed " << scene_.seed;
            expect_examples(g.value, split::train, order->indices(step, k * 2, 2));
          }
        ASSERT_EQ(at, s->list.size());
      }
    }
  }
  void expect_examples(const tensor& got, split from, const std::vector<std::int64_t>& which) {
    auto data = tensor::allocate(dev_->host(), {static_cast<std::int64_t>(which.size()), 1, 8, 8}, dtype::f32);
    auto label = tensor::allocate(dev_->host(), {static_cast<std::int64_t>(which.size())}, dtype::i32);
    const std::uint64_t before[2] = {reads->reads[0], reads->reads[1]};
    reads->read(from, which, data, label);
    reads->reads[0] = before[0], reads->reads[1] = before[1];
    const auto& want = got.type() == dtype::i32 ? label : data;
    ASSERT_EQ(got.bytes(), want.bytes());
    ASSERT_EQ(std::memcmp(got.raw(), want.raw(), want.bytes()), 0) << scene_.kind << " seed " << scene_.seed;
  }
  std::unique_ptr<sampler> sampler_of(std::uint32_t w) {
    sampler_config c{job->spec.seed, 64, 2 * scene_.packets, w, scene_.workers};
    c.shares.emplace();
    for (std::uint32_t i = 0; i < job->plan.ranges.size(); ++i)
      c.shares->add({2 * job->plan.ranges[i].first, 2 * job->plan.ranges[i].count}, i, w);
    return job->all->samplers.find(scene_.kind)->make(job->spec.data.sampler.values, c);
  }

  std::shared_ptr<prepared_job> job;
  std::shared_ptr<counted> reads;
  std::vector<std::vector<sink*>> sinks;
  std::map<role_id, int> max_open;  // open requests of one loader
  std::map<std::tuple<std::uint64_t, std::uint32_t, role_id>, std::uint32_t> hops;
  std::uint64_t deliveries = 0, doubled = 0, requests = 0, numbers = 0;
  sim::world& world() { return world_; }

 private:
  sim::world_config configuration() {
    sim::world_config c;
    c.seed = scene_.seed;
    c.dev = dev_.get();
    return c;
  }
  void watch() {
    world_.copies = [this](const envelope& e, sim::random& r) {
      if (std::holds_alternative<want_examples>(e.body)) max_open[e.h.src] = std::max(max_open[e.h.src], ++open_[e.h.src]);
      const bool other_node = job->plan[e.h.src].node != job->plan[e.h.dst].node;
      if (!scene_.twice || !other_node || r.below(2) == 0) return 1;
      ++doubled;
      return 2;
    };
    world_.on_deliver = [this](const envelope& e, time_point) {
      if (std::holds_alternative<want_examples>(e.body) && e.h.attempt == 0) ++requests;
      if (std::holds_alternative<examples_seed>(e.body)) ++numbers;
      if (std::holds_alternative<examples>(e.body) || std::holds_alternative<examples_seed>(e.body))
        if (e.h.attempt == 0) --open_[e.h.dst];
      if (!std::holds_alternative<examples>(e.body)) return;
      ++deliveries;
      const auto nth = std::get<examples>(e.body).nth;
      const auto before = hops.find({e.h.step, nth, e.h.src});
      hops.try_emplace({e.h.step, nth, e.h.dst}, before == hops.end() ? 1 : before->second + 1);
    };
  }

  scene scene_;
  std::unique_ptr<device> dev_;
  sim::world world_;
  std::map<role_id, int> open_;
};

const char* const kinds[] = {"shuffle", "sequential", "shard", "own_order", "replicate", "served", "seeded"};
const std::vector<duration> uneven{duration(1000), duration(400'000), duration(30'000)};

TEST(loaders, every_worker_gets_its_examples_in_order_at_its_pace) {
  std::uint64_t doubled = 0;
  for (std::uint64_t seed = 1; seed <= seeds_in_ci; ++seed)
    for (const char* kind : kinds) {
      scene s;
      s.kind = kind;
      s.seed = seed;
      s.workers = 2 + seed % 4;
      s.sub_solvers = 1 + seed % 2;
      s.paces = uneven;
      s.twice = seed % 2 == 0;
      loaders_of l(s);
      l.grant_all(9);
      l.run();
      l.expect_training(0, 9);
      if (HasFatalFailure() || HasNonfatalFailure()) return;
      doubled += l.doubled;
      for (const auto& [who, most] : l.max_open)
        if (s.kind != "replicate" && !s.twice) {
          ASSERT_LE(most, static_cast<int>(s.sub_solvers) + 1) << "requests are limited by credit, seed " << seed;
        }
    }
  EXPECT_GT(doubled, 1000u);
}

// In lockstep: every packet is read once and sent once over every edge of the tree, with at most
// ceil(log2 n) hops.
TEST(loaders, replicate_reads_once_and_broadcasts_in_a_binomial_tree) {
  for (std::uint32_t n = 1; n <= 17; ++n) {
    scene s;
    s.kind = "replicate";
    s.workers = n;
    s.packets = 2 * n > 32 ? n : 2 * n;
    const auto per_worker = s.packets / n;
    s.seed = n;
    loaders_of l(s);
    for (std::uint64_t step = 1; step <= 6; ++step) {
      l.grant_all(step);
      l.run();
    }
    l.expect_training(0, 6);
    std::uint32_t rounds = 0;
    while ((1u << rounds) < n) ++rounds;
    EXPECT_EQ(l.reads->reads[0], 6u * per_worker) << n << " workers";
    EXPECT_EQ(l.deliveries, 6u * per_worker * (n - 1)) << n << " workers";
    EXPECT_EQ(l.hops.size(), l.deliveries);
    for (const auto& [what, many] : l.hops) EXPECT_LE(many, rounds) << n << " workers";
  }
}

TEST(loaders, slow_worker_delays_no_other_and_gets_every_packet) {
  for (std::uint32_t slow : {0u, 1u, 2u, 4u}) {
    scene s;
    s.kind = "replicate";
    s.workers = 8;
    s.paces.assign(8, duration(1000));
    s.paces[slow] = duration(50'000'000);
    loaders_of l(s);
    l.grant_all(30);
    l.run();
    l.expect_training(0, 30);
    for (std::uint32_t w = 0; w < 8; ++w)
      if (w != slow) {
        EXPECT_LT(l.sinks[w][0]->last * 20, l.sinks[slow][0]->last) << "worker " << w << " waited for " << slow;
      }
    EXPECT_LE(l.reads->reads[0], 2u * 30u) << "read at most once more, for the slow worker";
  }
}

TEST(loaders, seeded_sends_one_seed_per_step_and_no_examples) {
  scene s;
  s.kind = "seeded";
  loaders_of l(s);
  l.grant_all(5);
  l.run();
  EXPECT_EQ(l.deliveries, 0u);
  EXPECT_GE(l.numbers, 3u * 5u);
  EXPECT_LE(l.numbers, 3u * (5u + 5u)) << "a seed requested before the previous step may be requested twice";
}

TEST(loaders, resumed_job_gets_the_examples_of_the_uninterrupted_one) {
  for (const char* kind : kinds) {
    scene s;
    s.kind = kind;
    s.first_step = 13;
    loaders_of l(s);
    l.grant_all(20);
    l.run();
    l.expect_training(13, 20);
  }
}

TEST(loaders, evaluation_examples_are_served_and_read_once) {
  for (const char* kind : {"shuffle", "served"}) {
    scene s;
    s.kind = kind;
    s.twice = true;
    loaders_of l(s);
    l.grant_all(1);
    for (auto r : l.job->plan.loaders) l.say(r, evaluate{1}, 1), l.say(r, evaluate{1}, 1);
    l.run();
    std::map<std::uint32_t, int> seen;
    for (std::uint32_t w = 0; w < s.workers; ++w)
      for (const auto& g : l.sinks[w][0]->list) {
        if (g.train) continue;
        ++seen[g.packet];
        EXPECT_EQ(g.packet % s.workers, w);
        const std::int64_t a = 2 * g.packet;
        l.expect_examples(g.value, split::test, {a, a + 1 < 13 ? a + 1 : -1});
      }
    EXPECT_EQ(seen.size(), 7u) << kind;
    for (const auto& [packet, times] : seen) EXPECT_EQ(times, 1) << kind << " packet " << packet;
  }
}

}  // namespace
}  // namespace troupe::testing
