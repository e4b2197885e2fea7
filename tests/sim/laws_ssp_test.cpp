// Invariants of ssp (Ho et al. 2013): staleness 0 is bsp, "inf" never waits, no step reads weights
// older than its staleness allows, every gradient is applied exactly once. The versions that a step
// reads are taken from the weights, which are a ledger (mode_job.hpp).
#include "tests/sim/mode_run.hpp"

namespace troupe::testing {
namespace {

TEST(laws_ssp, staleness_0_is_bsp_bit_for_bit_under_faults) {
  const auto dev = make_cpu_device();
  fault_sums sums;
  for (const auto seed : law_seeds()) {
    auto shape = draw_shape(seed, {.mode = "bsp", .rule = "momentum"});
    auto alone = shape;
    alone.workers = alone.shards = 1;
    const auto want = run({.job = prepare_mode(alone), .config = draw_world(1, 0, dev.get())}).bytes();
    shape.mode = "ssp";
    shape.options = {{"staleness", "0"}};
    const auto got = run({.job = prepare_mode(shape), .config = draw_world(seed, shape.workers, dev.get())});
    ASSERT_EQ(got.violation, "") << "seed " << seed;
    ASSERT_EQ(got.bytes(), want) << "seed " << seed;
    sums.add(got.counts);
  }
  sums.expect_all();
}

// Each forward of step t must read weights with the gradients of all packets of steps < t - s,
// those of its own worker of all steps < t, and none twice.
struct ledger {
  const prepared_job* job = nullptr;
  std::uint64_t staleness = 0, steps = 0;
  std::uint64_t reads = 0, oldest = 0;
  std::string wrong;
  void read(const weight_read& r) {
    if (!wrong.empty()) return;
    ++reads;
    const auto range = range_of(r.packet);
    for (std::uint32_t p = 0; p < job->plan.packets; ++p)
      for (std::uint64_t u = 0; u < steps; ++u) {
        const double n = r.weights[p * steps + u];
        const bool own = p >= range.first && p < range.first + range.count;
        const bool once = std::abs(n - 1) < 1e-9, never = std::abs(n) < 1e-9;
        const auto say = [&](const char* what) {
          std::ostringstream s;
          s << "layer " << r.layer << ", packet " << r.packet << " of step " << r.step << " reads weights that have packet " << p
            << " of step " << u << " " << n << " times: " << what;
          wrong = s.str();
        };
        if (!once && !never) return say("neither 0 nor 1 times");
        if (never && u + staleness < r.step) return say("too old");
        if (never && own && u < r.step) return say("a gradient of its own worker is missing");
        if (never && u < r.step) oldest = std::max(oldest, r.step - u);
      }
  }
  packet_range range_of(std::uint32_t packet) const {
    for (const auto& g : job->plan.ranges)
      if (packet >= g.first && packet < g.first + g.count) return g;
    return {};
  }
};

mode_shape tally_shape(std::uint64_t seed, mode_shape s) {
  s = draw_shape(seed, s);
  s.net = "tally";
  s.lr = -static_cast<double>(s.packets);
  s.layers = 1 + static_cast<std::uint32_t>(seed % 2);
  return s;
}

TEST(laws_ssp, reads_and_histogram_stay_within_the_staleness_bound) {
  const auto dev = make_cpu_device();
  fault_sums sums;
  std::uint64_t stale_reads = 0, seen_worst = 0;
  for (const auto seed : law_seeds()) {
    const auto s = seed % 5;  // 0 to 4
    auto shape = tally_shape(seed, {.mode = "ssp", .options = {{"staleness", std::to_string(s)}}});
    ledger book;
    const auto job = prepare_mode(shape);
    book.job = job.get(), book.staleness = s, book.steps = shape.steps;
    const auto config = draw_world(seed, shape.workers, dev.get());
    const auto got = run({.job = job, .config = config, .on_read = [&](const weight_read& r) { book.read(r); }});
    ASSERT_EQ(got.violation, "") << "seed " << seed;
    ASSERT_EQ(book.wrong, "") << "seed " << seed;
    for (const auto& [name, w] : got.weights)
      for (std::int64_t i = 0; i < w.count(); ++i)
        ASSERT_NEAR(w.data<double>()[i], 1, 1e-9) << name << " " << i << ", seed " << seed;
    EXPECT_GE(book.reads, shape.steps * shape.packets * shape.layers);
    stale_reads += book.oldest > 0;
    seen_worst = std::max(seen_worst, book.oldest);
    for (const auto& e : got.events) {
      if (!e.is<staleness_event>()) continue;
      for (const auto& [name, count] : flatten(e).values)
        EXPECT_LE(std::stoull(name.substr(name.find(' ') + 1)), s) << name << " " << count << ", seed " << seed;
    }
    sums.add(got.counts);
  }
  sums.expect_all();
  if (seeds() >= 50) {
    EXPECT_GT(stale_reads, seeds() / 4) << "too few stale reads occurred";
    EXPECT_EQ(seen_worst, 4u) << "the bound of 4 was never reached";
  }
}

// Checks that "inf" never blocks: when a worker has made a step of a layer (it has the gradients of
// all its packets), the stage gets the weights of the next step without a message from a shard in
// between. Observed at the worker: no `weights` delivery passes on a layer that already had
// weights.
class never_waits final : public checker {
 public:
  std::uint64_t handed = 0;

 private:
  void watch(const seen_event& s, const prepared_job& j) override {
    if (j.plan[s.self].kind != role_kind::worker) return;
    const bool weights_came = std::holds_alternative<weights>(s.in.body);
    for (const auto& e : s.out) {
      const auto* send = std::get_if<send_effect>(&e);
      const auto* w = send ? std::get_if<layer_weights>(&send->e.body) : nullptr;
      if (!w) continue;
      ++handed;
      must(!weights_came || !begun_.count({s.self, w->layer}),
           [&] { return j.plan[s.self].name + " waited for a shard before version " + std::to_string(send->e.h.version); });
      begun_.insert({s.self, w->layer});
    }
  }
  std::set<std::pair<role_id, std::uint32_t>> begun_;
};

TEST(laws_ssp, infinite_staleness_never_waits_for_a_shard) {
  const auto dev = make_cpu_device();
  fault_sums sums;
  for (const auto seed : law_seeds()) {
    auto shape = tally_shape(seed, {.mode = "ssp", .options = {{"staleness", "inf"}}});
    never_waits watch;
    ledger book;
    const auto job = prepare_mode(shape);
    book.job = job.get(), book.staleness = shape.steps, book.steps = shape.steps;
    const auto got = run({.job = job,
                          .config = draw_world(seed, shape.workers, dev.get()),
                          .checkers = {&watch},
                          .on_read = [&](const weight_read& r) { book.read(r); }});
    ASSERT_EQ(got.violation, "") << "seed " << seed;
    ASSERT_EQ(book.wrong, "") << "seed " << seed;
    ASSERT_GE(watch.handed, shape.steps * shape.workers * shape.layers);
    for (const auto& [name, w] : got.weights)
      for (std::int64_t i = 0; i < w.count(); ++i)
        ASSERT_NEAR(w.data<double>()[i], 1, 1e-9) << name << " " << i << ", seed " << seed;
    sums.add(got.counts);
  }
  sums.expect_all();
}

}  // namespace
}  // namespace troupe::testing
