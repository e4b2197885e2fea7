// Invariants of mode switches: a job that changes its mode repeatedly, under faults, loses no
// gradient and applies none twice; the state of the update rule is kept.
#include "tests/sim/mode_checkers.hpp"

namespace troupe::testing {
namespace {

struct choice_of_mode {
  std::string name;
  text_options options;
};

using draw_of_mode = choice_of_mode (*)(std::mt19937_64&);

choice_of_mode draw_mode(std::mt19937_64& g) {
  switch (g() % 5) {
    case 0: return {"bsp", {}};
    case 1: return {"ssp", {{"staleness", std::to_string(g() % 4)}}};
    case 2: return {"downpour", {}};
    case 3: return {"easgd", {{"alpha", "0.25"}, {"tau", std::to_string(1 + g() % 3)}}};
    default: return {"gossip", {{"every", std::to_string(1 + g() % 3)}}};
  }
}

// Checks what a tally net's weights gain in each mode epoch (from one adopt to the next): for every
// packet and step of the mode epoch its gradient once, times the factor of the mode; for all others
// 0.
//   bsp, ssp, downpour (one group): 1 / workers, in the values of the shards
//   easgd: 1, in the centre plus all workers' copies minus their initial values
//   gossip: the worker's mass at that step, in (0, 1]
class switch_ledger final : public checker {
 public:
  explicit switch_ledger(std::string mode) { modes_.push_back({std::move(mode), 0}); }
  std::size_t switches() const { return modes_.size() - 1; }
  void finish(const prepared_job& j, const mode_result& r) {
    std::map<std::uint32_t, std::vector<double>> last;
    for (const auto& b : j.plan.blocks) {
      const auto* from = r.weights.at(b.param).second.data<double>() + b.begin;
      last[b.id] = {from, from + b.count};
    }
    values_[modes_.size()] = last;
    modes_.push_back({"end", j.last_step});
    for (std::size_t mode_epoch = 0; mode_epoch + 1 < modes_.size() && violation().empty(); ++mode_epoch) check(mode_epoch, j);
  }

 private:
  struct mode_epoch_of {
    std::string mode;
    std::uint64_t from;
  };
  void watch(const seen_event& s, const prepared_job& j) override {
    if (const auto* a = std::get_if<adopt>(&s.in.body); a && s.in.h.mode_epoch == modes_.size())
      modes_.push_back({a->mode, s.in.h.step});
    for (const auto& e : s.out) {
      header h;
      const auto* w = sent<weights>(e, &h);
      const auto* st = sent<state>(e, &h);
      const std::size_t mode_epoch = h.mode_epoch;
      if (is(j.plan, s.self, role_kind::shard) && (w || st)) {  // the first value of a mode epoch
        const auto& v = w ? w->value : st->value;
        values_[mode_epoch].try_emplace(w ? w->block : st->block, values(v));
      }
      if (is(j.plan, s.self, role_kind::worker) && st && st->round > 0)
        copies_[mode_epoch][{st->block, s.self}] = values(st->value);
    }
  }
  void check(std::size_t mode_epoch, const prepared_job& j) {
    const auto& [mode, from] = modes_[mode_epoch];
    const auto until = modes_[mode_epoch + 1].from;
    const auto workers = static_cast<double>(j.plan.workers.size());
    for (const auto& b : j.plan.blocks) {
      const auto &first = values_[mode_epoch][b.id], &last = values_[mode_epoch + 1][b.id];
      if (first.empty() || last.empty()) return must(false, [] { return "a mode epoch without weights"; });
      for (std::size_t i = 0; i < first.size(); ++i) {
        const auto step = static_cast<std::uint64_t>(b.begin + static_cast<std::int64_t>(i)) % j.last_step;
        const bool inside = step >= from && step < until;
        double gained = last[i] - first[i];
        bool right = std::abs(gained - (inside ? 1 / workers : 0)) < 1e-9;
        if (mode == "gossip") right = inside ? gained > 1e-12 && gained <= 1 + 1e-9 : std::abs(gained) < 1e-9;
        if (mode == "easgd") {
          for (const auto& [at, w] : copies_[mode_epoch])
            if (at.first == b.id) gained += w[i] - first[i];
          right = std::abs(gained - (inside ? 1 : 0)) < 1e-9;
        }
        must(right, [&, mode = mode, from = from] {
          std::ostringstream s;
          s << "mode epoch " << mode_epoch << " (" << mode << ", steps " << from << " to " << until << "): element " << i
            << " of block " << b.id << " (step " << step << ") gains " << gained;
          return s.str();
        });
      }
    }
  }
  std::vector<mode_epoch_of> modes_;
  std::map<std::size_t, std::map<std::uint32_t, std::vector<double>>> values_;  // by mode epoch, block: the first value
  std::map<std::size_t, std::map<std::pair<std::uint32_t, role_id>, std::vector<double>>> copies_;
};

// Requests a switch a random time after each switch.
mode_result run_switching(mode_run r, std::uint64_t seed, std::uint64_t last_step, draw_of_mode draw = draw_mode) {
  auto g = std::make_shared<std::mt19937_64>(seed * 31 + 7);
  const auto ask = [g, draw](sim::world& w) {
    const auto next = draw(*g);
    const auto when = w.now() + duration(static_cast<std::int64_t>((*g)() % 2000000));
    w.at(when, [&w, next] { say(w, {mode_command{{next.name, next.options}}}); });
  };
  r.prepare = [ask](sim::world& w) { ask(w); };
  r.on_event = [ask, last_step](sim::world& w, const event_effect& e) {
    if (e.is<mode_event>() && e.step + 2 < last_step) ask(w);
  };
  return run(r);
}

mode_shape switching_shape(std::uint64_t seed) {
  auto shape = draw_shape(seed, {.mode = "bsp", .net = "tally"});
  shape.workers = 2 + static_cast<std::uint32_t>(seed % 7);
  shape.packets = shape.workers;
  shape.steps = 40;
  shape.lr = -1;
  return shape;
}

TEST(laws_switch, no_gradient_is_lost_or_applied_twice) {
  const auto dev = make_cpu_device();
  fault_sums sums;
  std::uint64_t switches = 0;
  for (const auto seed : law_seeds()) {
    const auto shape = switching_shape(seed);
    const auto job = prepare_mode(shape);
    switch_ledger book("bsp");
    const auto got =
        run_switching({.job = job, .config = draw_world(seed, shape.workers, dev.get()), .checkers = {&book}}, seed, shape.steps);
    ASSERT_EQ(got.violation, "") << "seed " << seed;
    book.finish(*job, got);
    ASSERT_EQ(book.violation(), "") << "seed " << seed;
    switches += book.switches();
    sums.add(got.counts);
  }
  EXPECT_GT(switches, std::max<std::uint64_t>(1, seeds() / 2));
  sums.expect_all();
}

TEST(laws_switch, adam_state_survives_a_switch_to_ssp_and_back) {
  const auto dev = make_cpu_device();
  std::uint64_t switches = 0;
  for (const auto seed : law_seeds(100)) {
    const auto shape = draw_shape(seed, {.mode = "bsp", .rule = seed % 2 ? "adam" : "momentum"});
    auto alone = shape;
    alone.workers = alone.shards = 1;
    const auto want = run({.job = prepare_mode(alone), .config = draw_world(1, 0, dev.get())}).bytes();
    mode_run r{.job = prepare_mode(shape), .config = draw_world(seed, shape.workers, dev.get())};
    r.prepare = [&](sim::world& w) { w.at(duration(300'000), [&w] { say(w, {mode_command{{"ssp", {{"staleness", "0"}}}}}); }); };
    r.on_event = [&](sim::world& w, const event_effect& e) {
      if (!e.is<mode_event>()) return;
      ++switches;
      if (message_of(e).starts_with("ssp")) say(w, {mode_command{{"bsp"}}});
    };
    const auto got = run(r);
    ASSERT_EQ(got.violation, "") << "seed " << seed;
    ASSERT_EQ(got.bytes(), want) << "seed " << seed;
  }
  EXPECT_GE(switches, seeds(100));
}

// A mode epoch has eight bits in a header: the 257th switch must still differ from the first.
TEST(laws_switch, job_may_switch_more_often_than_mode_epochs_have_numbers) {
  const auto dev = make_cpu_device();
  auto shape = draw_shape(1, {.mode = "bsp"});
  shape.workers = 2, shape.steps = 1000;
  auto alone = shape;
  alone.workers = alone.shards = 1;
  const auto want = run({.job = prepare_mode(alone), .config = draw_world(1, 0, dev.get())}).bytes();
  mode_run r{.job = prepare_mode(shape), .config = draw_world(1, shape.workers, dev.get())};
  std::uint64_t switches = 0;
  r.prepare = [&](sim::world& w) { w.at(duration(300'000), [&w] { say(w, {mode_command{{"ssp", {{"staleness", "0"}}}}}); }); };
  r.on_event = [&](sim::world& w, const event_effect& e) {
    if (!e.is<mode_event>() || ++switches == 300) return;
    message_of(e).starts_with("ssp") ? say(w, {mode_command{{"bsp"}}}) : say(w, {mode_command{{"ssp", {{"staleness", "0"}}}}});
  };
  const auto got = run(r);
  EXPECT_EQ(got.violation, "");
  EXPECT_TRUE(got.done);
  EXPECT_EQ(switches, 300u);
  EXPECT_EQ(got.bytes(), want);
}

}  // namespace
}  // namespace troupe::testing
