// Laws of live switching: a job that changes its mode again and again, under faults, loses no gradient and applies none twice; the
// state of the update rule goes along.
#include "tests/sim/mode_checkers.hpp"

namespace troupe::testing {
namespace {

struct choice_of_mode {
  std::string name;
  text_options options;
};

choice_of_mode draw_mode(std::mt19937_64& g) {
  switch (g() % 5) {
    case 0: return {"bsp", {}};
    case 1: return {"ssp", {{"staleness", std::to_string(g() % 4)}}};
    case 2: return {"downpour", {}};
    case 3: return {"easgd", {{"alpha", "0.25"}, {"tau", std::to_string(1 + g() % 3)}}};
    default: return {"gossip", {{"every", std::to_string(1 + g() % 3)}}};
  }
}

// What a tally net's weights must have gained in each era (from one adopt to the next): for every packet and step of the era its gradient
// once, with the factor of the mode; for all others nothing.
//   bsp, ssp, downpour (one group): 1 / workers, in the value that goes from shard to shard
//   easgd: 1, in the centre plus all workers' copies, above what they began with; gossip: the mass its worker had then, in (0, 1]
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
    for (std::size_t era = 0; era + 1 < modes_.size() && violation().empty(); ++era) check(era, j);
  }

 private:
  struct era_of {
    std::string mode;
    std::uint64_t from;
  };
  void watch(const seen_event& s, const prepared_job& j) override {
    if (const auto* a = std::get_if<adopt>(&s.in.body); a && s.in.h.clock == modes_.size())
      modes_.push_back({a->mode, s.in.h.step});
    for (const auto& e : s.out) {
      header h;
      const auto* w = sent<weights>(e, &h);
      const auto* st = sent<state>(e, &h);
      const std::size_t era = h.flags >> 8;
      if (is(j.plan, s.self, role_kind::shard) && (w || st)) {  // the first value of an era
        const auto& v = w ? w->value : st->value;
        values_[era].try_emplace(w ? w->block : st->block, std::vector<double>(v.data<double>(), v.data<double>() + v.count()));
      }
      if (is(j.plan, s.self, role_kind::worker) && st && !(h.flags & flag_join))
        copies_[era][{st->block, s.self}] = {st->value.data<double>(), st->value.data<double>() + st->value.count()};
    }
  }
  void check(std::size_t era, const prepared_job& j) {
    const auto& [mode, from] = modes_[era];
    const auto until = modes_[era + 1].from;
    const auto workers = static_cast<double>(j.plan.workers.size());
    for (const auto& b : j.plan.blocks) {
      const auto &first = values_[era][b.id], &last = values_[era + 1][b.id];
      if (first.empty() || last.empty()) return must(false, [] { return "an era without weights"; });
      for (std::size_t i = 0; i < first.size(); ++i) {
        const auto step = static_cast<std::uint64_t>(b.begin + static_cast<std::int64_t>(i)) % j.last_step;
        const bool inside = step >= from && step < until;
        double gained = last[i] - first[i];
        bool right = std::abs(gained - (inside ? 1 / workers : 0)) < 1e-9;
        if (mode == "gossip") right = inside ? gained > 1e-12 && gained <= 1 + 1e-9 : std::abs(gained) < 1e-9;
        if (mode == "easgd") {
          for (const auto& [at, w] : copies_[era])
            if (at.first == b.id) gained += w[i] - first[i];
          right = std::abs(gained - (inside ? 1 : 0)) < 1e-9;
        }
        must(right, [&] {
          std::ostringstream s;
          s << "era " << era << " (" << mode << ", steps " << from << " to " << until << "): element " << i << " of block " << b.id
            << " (step " << step << ") gains " << gained;
          return s.str();
        });
      }
    }
  }
  std::vector<era_of> modes_;
  std::map<std::size_t, std::map<std::uint32_t, std::vector<double>>> values_;  // by era, block: at its beginning
  std::map<std::size_t, std::map<std::pair<std::uint32_t, role_id>, std::vector<double>>> copies_;
};

void say(sim::world& w, command c) {
  envelope e;
  e.h.dst = role_id{0};
  e.body = std::move(c);
  w.inject(e);
}

// After each switch the next one is asked for, a random time later.
mode_result run_switching(mode_run r, std::uint64_t seed, std::uint64_t last_step) {
  auto g = std::make_shared<std::mt19937_64>(seed * 31 + 7);
  const auto ask = [g](sim::world& w) {
    const auto next = draw_mode(*g);
    const auto when = w.now() + duration(static_cast<std::int64_t>((*g)() % 2000000));
    w.at(when, [&w, next] { say(w, {"mode", next.name, 0, next.options}); });
  };
  r.prepare = [ask](sim::world& w) { ask(w); };
  r.on_event = [ask, last_step](sim::world& w, const event_effect& e) {
    if (e.kind == "mode" && e.step + 2 < last_step) ask(w);
  };
  return run(r);
}

void switching(const fault_wish& wish) {
  const auto dev = make_cpu_device();
  fault_sums sums;
  std::uint64_t switches = 0;
  for (const auto seed : law_seeds()) {
    auto shape = draw_shape(seed, {.mode = "bsp", .net = "tally"});
    shape.workers = 2 + static_cast<std::uint32_t>(seed % 7);
    shape.packets = shape.workers;
    shape.steps = 40;
    shape.lr = -1;
    const auto job = prepare_mode(shape);
    switch_ledger book("bsp");
    const auto got = run_switching({.job = job, .config = draw_world(seed, shape.workers, dev.get(), wish), .checkers = {&book}},
                                   seed, shape.steps);
    ASSERT_EQ(got.violation, "") << "seed " << seed;
    switches += book.switches();
    sums.add(got.counts);
    if (got.counts.crashed == 0) book.finish(*job, got);  // what a crashed worker held alone is gone
    ASSERT_EQ(book.violation(), "") << "seed " << seed;
  }
  std::printf("%llu switches\n", static_cast<unsigned long long>(switches));
  EXPECT_GT(switches, std::max<std::uint64_t>(1, seeds() / 2));
  sums.expect_all(wish);
}

TEST(laws_switch, no_gradient_is_lost_or_applied_twice) { switching({.crash = false}); }
TEST(laws_switch, switching_goes_on_when_workers_crash_and_come_back) { switching({}); }

TEST(laws_switch, adam_goes_through_ssp_and_back_bit_for_bit) {
  const auto dev = make_cpu_device();
  std::uint64_t switches = 0;
  for (const auto seed : law_seeds(100)) {
    const auto shape = draw_shape(seed, {.mode = "bsp", .rule = seed % 2 ? "adam" : "momentum"});
    auto alone = shape;
    alone.workers = alone.shards = 1;
    const auto want = run({.job = prepare_mode(alone), .config = draw_world(1, 0, dev.get())}).bytes();
    mode_run r{.job = prepare_mode(shape), .config = draw_world(seed, shape.workers, dev.get(), {.crash = false})};
    r.prepare = [&](sim::world& w) { w.at(duration(300'000), [&w] { say(w, {"mode", "ssp", 0, {{"staleness", "0"}}}); }); };
    r.on_event = [&](sim::world& w, const event_effect& e) {
      if (e.kind != "mode") return;
      ++switches;
      if (e.text.starts_with("ssp")) say(w, {"mode", "bsp", 0, {}});
    };
    const auto got = run(r);
    ASSERT_EQ(got.violation, "") << "seed " << seed;
    ASSERT_EQ(got.bytes(), want) << "seed " << seed;
  }
  EXPECT_GE(switches, seeds(100));
}

}  // namespace
}  // namespace troupe::testing
