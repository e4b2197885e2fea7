// Laws of easgd (Zhang, Choromanska, LeCun 2015) and gossip (Blot et al. 2016; Kempe et al. 2003): what averaging must keep.
#include "runtime/plain/plain_loop.hpp"
#include "tests/sim/mode_checkers.hpp"

namespace troupe::testing {
namespace {

// What all workers' weights and the centre hold together at the end: the sum over workers (their `state` when they settle) plus the centre.
class whole_sum final : public checker {
 public:
  std::map<std::uint32_t, std::vector<double>> sum;                         // by block
  std::map<std::pair<std::uint32_t, role_id>, std::vector<double>> copies;  // by block, worker: what it settled with
 private:
  void watch(const seen_event& s, const prepared_job& j) override {
    if (!is(j.plan, s.self, role_kind::worker)) return;
    for (const auto& e : s.out) {
      header h;
      const auto* c = sent<state>(e, &h);
      if (!c || (h.flags & flag_join)) continue;
      copies[{c->block, s.self}] = {c->value.data<double>(), c->value.data<double>() + c->value.count()};
    }
  }
  void close(const prepared_job&) override {
    for (const auto& [at, values] : copies) {
      auto& to = sum[at.first];
      to.resize(values.size());
      for (std::size_t i = 0; i < values.size(); ++i) to[i] += values[i];
    }
  }
};

mode_shape averaging_tally(std::uint64_t seed, const std::string& mode, text_options options) {
  auto s = draw_shape(seed, {.mode = mode, .options = std::move(options), .net = "tally"});
  s.packets = s.workers;
  s.lr = -1;
  return s;
}

// The mean that gossip keeps has each gradient once, with the mass its worker had then: more than 0, at most 1.
std::string off_mass(const mode_result& r) {
  for (const auto& [name, w] : r.weights)
    for (std::int64_t i = 0; i < w.count(); ++i)
      if (const double n = w.data<double>()[i]; !(n > 0 && n <= 1 + 1e-9))
        return name + " " + std::to_string(i) + " is " + std::to_string(n);
  return r.weights.empty() ? "no weights" : "";
}

void elastic_sums(const std::string& variant, const fault_wish& wish) {
  const auto dev = make_cpu_device();
  fault_sums sums;
  std::uint64_t exchanges = 0;
  for (const auto seed : law_seeds()) {
    const auto tau = 1 + seed % 5;
    auto shape = averaging_tally(seed, "easgd", {{"tau", std::to_string(tau)}, {"variant", variant}});
    // N alpha above 2 does not settle, also where all are told a centre before any has moved it: rounding would grow with the weights.
    const double alpha = variant == "sync" || shape.workers > 5 ? 0.9 / shape.workers : 0.3;
    shape.options.emplace_back("alpha", variant == "sync" || shape.workers > 5 ? "auto" : "0.3");
    elastic_checker watch(alpha, variant == "sync");
    whole_sum all;
    const auto job = prepare_mode(shape);
    const auto got = run({.job = job, .config = draw_world(seed, shape.workers, dev.get(), wish), .checkers = {&watch, &all}});
    ASSERT_EQ(got.violation, "") << "seed " << seed;
    exchanges += watch.exchanges;
    sums.add(got.counts);
    if (got.counts.crashed > 0) continue;  // a restarted worker begins from the centre: the sum is another
    // Each worker's gradient of a step is in the sum of all weights and the centre once.
    for (const auto& b : job->plan.blocks) {
      const auto& c = got.weights.at(b.param).second;
      for (std::int64_t i = 0; i < b.count; ++i)
        ASSERT_NEAR(all.sum.at(b.id)[static_cast<std::size_t>(i)] + c.data<double>()[b.begin + i], 1, 1e-9)
            << "element " << b.begin + i << " of " << got.weights.at(b.param).first << ", seed " << seed;
    }
  }
  EXPECT_GT(exchanges, seeds());
  sums.expect_all(wish);
}

TEST(laws_easgd, async_exchanges_keep_the_sum_of_workers_and_centre) { elastic_sums("async", {}); }
TEST(laws_easgd, sync_exchanges_keep_the_sum_of_workers_and_centre) { elastic_sums("sync", {}); }

TEST(laws_easgd, alpha_0_and_one_worker_is_plain_training) {
  const auto dev = make_cpu_device();
  for (const auto seed : law_seeds()) {
    auto shape =
        draw_shape(seed, {.mode = "easgd", .options = {{"alpha", "0"}, {"tau", std::to_string(1 + seed % 4)}}, .rule = "adam"});
    shape.workers = 1;
    shape.packets = 1 + static_cast<std::uint32_t>(seed % 3);
    auto plain_shape = shape;
    plain_shape.mode = "bsp";
    plain_shape.options.clear();
    plain_loop plain(prepare_mode(plain_shape), make_cpu_device());
    while (plain.steps() < shape.steps) plain.step();
    whole_sum all;
    const auto job = prepare_mode(shape);
    const auto got = run({.job = job, .config = draw_world(seed, 1, dev.get()), .checkers = {&all}});
    ASSERT_EQ(got.violation, "") << "seed " << seed;
    if (got.counts.crashed > 0) continue;
    const auto want = plain.weights();
    for (const auto& b : job->plan.blocks)
      ASSERT_EQ(std::memcmp(all.sum.at(b.id).data(), want.at(b.param).second.data<double>() + b.begin,
                            static_cast<std::size_t>(b.count) * sizeof(double)),
                0)
          << "seed " << seed;
  }
}

TEST(laws_gossip, masses_sum_to_1_and_a_message_is_merged_once) {
  const auto dev = make_cpu_device();
  fault_sums sums;
  const fault_wish wish{.crash = false};
  std::uint64_t merges = 0;
  for (const auto seed : law_seeds()) {
    auto shape = averaging_tally(seed, "gossip", {{"every", std::to_string(1 + seed % 3)}});
    shape.layers = 1;
    mass_checker masses;
    whole_sum all;
    const auto got =
        run({.job = prepare_mode(shape), .config = draw_world(seed, shape.workers, dev.get(), wish), .checkers = {&masses, &all}});
    ASSERT_EQ(got.violation, "") << "seed " << seed;
    merges += masses.merges;
    ASSERT_EQ(off_mass(got), "") << "seed " << seed;
    sums.add(got.counts);
  }
  EXPECT_GT(merges, seeds());
  sums.expect_all(wish);
}

// A restarted worker begins anew, from the weights that the shards have and with the mass of one who begins: sums are others then, but
// nobody waits for what was lost, and the end is reached with several layers.
TEST(laws_gossip, several_layers_and_restarts_come_to_an_end) {
  const auto dev = make_cpu_device();
  fault_sums sums;
  for (const auto seed : law_seeds()) {
    const auto shape = averaging_tally(seed, "gossip", {{"every", std::to_string(1 + seed % 3)}});
    const auto got = run({.job = prepare_mode(shape), .config = draw_world(seed, shape.workers, dev.get())});
    ASSERT_EQ(got.violation, "") << "seed " << seed;
    ASSERT_EQ(got.counts.crashed > 0 ? "" : off_mass(got), "") << "seed " << seed;
    sums.add(got.counts);
  }
  sums.expect_all();
}

}  // namespace
}  // namespace troupe::testing
