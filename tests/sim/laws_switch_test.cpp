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

// Draws a mode that pushes gradients: no update is only at a worker for longer than a step, which
// the worker repeats after a restart.
choice_of_mode draw_travelling(std::mt19937_64& g) {
  switch (g() % 4) {
    case 0: return {"bsp", {}};
    case 1: return {"downpour", {}};
    default: return {"ssp", {{"staleness", std::to_string(g() % 4)}}};
  }
}

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

// A worker that restarts after a switch joins in the mode epoch that all shards had at its restart,
// or a later one.
class mode_of_the_day final : public checker {
 public:
  std::uint64_t joined = 0, learnt = 0;  // workers that joined; of them, those that a shard had to notify

 private:
  void watch(const seen_event& s, const prepared_job& j) override {
    const auto* a = std::get_if<adopt>(&s.in.body);
    if (a && is(j.plan, s.self, role_kind::shard)) mode_epoch_[s.self] = s.in.h.mode_epoch;
    if (!is(j.plan, s.self, role_kind::worker)) return;
    if (std::holds_alternative<start>(s.in.body) && s.in.h.incarnation > 0) {
      auto& least = came_[s.self] = ~0u;
      for (auto shard : j.plan.shards) least = std::min(least, mode_epoch_[shard]);
      told_.erase(s.self);
    }
    if (a && is(j.plan, s.in.h.src, role_kind::shard)) told_.insert(s.self);
    for (const auto& e : s.out) {
      header h;
      const auto* r = sent<ready>(e, &h);
      if (!r || r->what != ready::what_of::joined) continue;
      ++joined;
      learnt += told_.erase(s.self);
      const std::uint32_t mode_epoch = h.mode_epoch;
      must(mode_epoch >= came_[s.self], [&] {
        return j.plan[s.self].name + " joins in mode epoch " + std::to_string(mode_epoch) + ", but the shards had begun " +
               std::to_string(came_[s.self]) + " at its restart";
      });
    }
  }
  std::map<role_id, std::uint32_t> mode_epoch_, came_;  // by shard; by worker
  std::set<role_id> told_;
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

// Adds crashes, spread over all mode epochs.
void crash_more(sim::world_config& c, std::uint64_t seed, std::uint32_t workers) {
  sim::fault f;
  f.kind = sim::fault_kind::crash;
  f.from = duration(1'000'000), f.until = duration(20'000'000);
  for (std::uint32_t w = 1; w <= workers; ++w) f.nodes.push_back(w);
  f.restart_after = duration(20'000 + static_cast<std::int64_t>(seed % 11) * 150'000);
  f.times = 2 + static_cast<std::uint32_t>(seed % 4);
  c.faults.list.push_back(f);
}

// `always`: check the ledger also if workers were restarted. Otherwise it is not checked then,
// because state that only a crashed worker had is lost.
void switching(const fault_wish& wish, draw_of_mode draw = draw_mode, bool always = false) {
  const auto dev = make_cpu_device();
  fault_sums sums;
  std::uint64_t switches = 0, joined = 0, learnt = 0;
  for (const auto seed : law_seeds()) {
    const auto shape = switching_shape(seed);
    const auto job = prepare_mode(shape);
    switch_ledger book("bsp");
    mode_of_the_day day;
    auto config = draw_world(seed, shape.workers, dev.get(), wish);
    if (wish.crash && seed % 2) crash_more(config, seed, shape.workers);
    const auto got = run_switching({.job = job, .config = config, .checkers = {&book, &day}}, seed, shape.steps, draw);
    ASSERT_EQ(got.violation, "") << "seed " << seed;
    switches += book.switches();
    sums.add(got.counts);
    if (always || got.counts.crashed == 0) book.finish(*job, got);
    ASSERT_EQ(book.violation(), "") << "seed " << seed;
    joined += day.joined;
    learnt += day.learnt;
  }
  std::printf("%llu switches; %llu workers joined, %llu were notified of a switch that they had missed\n",
              static_cast<unsigned long long>(switches), static_cast<unsigned long long>(joined),
              static_cast<unsigned long long>(learnt));
  EXPECT_GT(switches, std::max<std::uint64_t>(1, seeds() / 2));
  if (wish.crash && seeds() >= 50) {
    EXPECT_GT(learnt, seeds() / 4);
  }
  sums.expect_all(wish);
}

TEST(laws_switch, no_gradient_is_lost_or_applied_twice) { switching({.crash = false}); }
TEST(laws_switch, switching_continues_when_workers_crash_and_restart) { switching({}); }
TEST(laws_switch, restarts_lose_no_gradient_in_modes_that_push_gradients) { switching({}, draw_travelling, true); }

// Planted: a shard does not notify workers of the current mode.
struct untold_switch final : mistake {
  void play(role& inner, role_id self, const envelope& in, time_point now, effects& out, const prepared_job& j) override {
    const auto before = static_cast<std::ptrdiff_t>(out.list().size());
    inner.on(in, now, out);
    if (!is(j.plan, self, role_kind::shard)) return;
    auto& list = out.list();
    list.erase(std::remove_if(list.begin() + before, list.end(), [](const effect& e) { return sent<adopt>(e) != nullptr; }),
               list.end());
  }
};

// Planted: a restarted worker joins with mode epoch 0 instead of the current one.
struct unlearnt_switch final : mistake {
  std::set<role_id> back;
  void play(role& inner, role_id self, const envelope& in, time_point now, effects& out, const prepared_job& j) override {
    const auto before = out.list().size();
    inner.on(in, now, out);
    if (!is(j.plan, self, role_kind::worker)) return;
    if (std::holds_alternative<start>(in.body)) back.insert(self);
    for (auto i = before; i < out.list().size(); ++i)
      if (const auto* r = sent<ready>(out.list()[i]); r && r->what == ready::what_of::joined && back.erase(self))
        std::get<send_effect>(out.list()[i]).e.h.mode_epoch = 0;
  }
};

TEST(laws_mistakes, restarted_worker_that_misses_a_mode_switch_is_found) {
  const auto dev = make_cpu_device();
  const auto find = [&](const char* name, const std::function<std::unique_ptr<mistake>()>& make) {
    for (std::uint64_t seed = 1; seed < 1000; ++seed) {
      const auto shape = switching_shape(seed);
      const auto wrong = make();
      mode_of_the_day day;
      const auto got = run_switching({.job = prepare_mode(shape),
                                      .config = draw_world(seed, shape.workers, dev.get()),
                                      .checkers = {&day},
                                      .wrong = wrong.get()},
                                     seed, shape.steps);
      if (got.violation.empty()) continue;
      std::printf("%s: found at seed %llu: %s\n", name, static_cast<unsigned long long>(seed),
                  got.violation.substr(0, 120).c_str());
      return;
    }
    ADD_FAILURE() << name << " has not been found in 1,000 seeds";
  };
  find("shard does not report the switch", [] { return std::make_unique<untold_switch>(); });
  find("worker ignores the switch", [] { return std::make_unique<unlearnt_switch>(); });
}

TEST(laws_switch, adam_state_survives_a_switch_to_ssp_and_back) {
  const auto dev = make_cpu_device();
  std::uint64_t switches = 0;
  for (const auto seed : law_seeds(100)) {
    const auto shape = draw_shape(seed, {.mode = "bsp", .rule = seed % 2 ? "adam" : "momentum"});
    auto alone = shape;
    alone.workers = alone.shards = 1;
    const auto want = run({.job = prepare_mode(alone), .config = draw_world(1, 0, dev.get())}).bytes();
    mode_run r{.job = prepare_mode(shape), .config = draw_world(seed, shape.workers, dev.get(), {.crash = false})};
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
  mode_run r{.job = prepare_mode(shape), .config = draw_world(1, shape.workers, dev.get(), {.crash = false})};
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
