// Planted mistakes: a faulty role replaces the real one, and the checkers must find it within 1,000
// seeds.
#include "runtime/sync/clocked.hpp"
#include "tests/sim/mode_checkers.hpp"

namespace troupe::testing {
namespace {

using plan_run = std::function<std::string(std::uint64_t seed)>;  // the violation found; empty: none

void must_be_found(const char* name, const plan_run& one) {
  for (std::uint64_t seed = 1; seed < 1000; ++seed) {
    const auto what = one(seed);
    if (what.empty()) continue;
    std::printf("%s: found at seed %llu: %s\n", name, static_cast<unsigned long long>(seed), what.c_str());
    return;
  }
  FAIL() << name << " has not been found in 1,000 seeds";
}

std::string noticed(mode_run r) { return run(r).violation; }

// Takes a second copy of a push for another push.
struct skipped_deduplication final : mistake {
  void play(role& inner, role_id self, const envelope& in, time_point now, effects& out, const prepared_job& j) override {
    auto e = in;
    if (is(j.plan, self, role_kind::shard) && std::holds_alternative<push>(e.body) && e.h.attempt > 0) ++e.h.step;
    inner.on(e, now, out);
  }
};

TEST(laws_mistakes, skipped_deduplication_is_found) {
  const auto dev = make_cpu_device();
  must_be_found("skipped de-duplication", [&](std::uint64_t seed) {
    auto shape = downpour_tally(seed);
    shape.options = {{"n_push", "2"}};  // pushes have even steps, so the faulty copy gets an unused odd one
    push_checker once;
    skipped_deduplication wrong;
    return noticed(
        {.job = prepare_mode(shape), .config = draw_world(seed, shape.workers, dev.get()), .checkers = {&once}, .wrong = &wrong});
  });
}

TEST(laws_mistakes, staleness_off_by_one_is_found) {
  const auto dev = make_cpu_device();
  auto all = mode_tables();
  auto off = *all.modes.find("ssp");
  off.make_worker = [](sync_config c) -> std::unique_ptr<role> {
    const auto s = static_cast<std::uint64_t>(std::get<std::int64_t>(c.mode.values.at("staleness")));
    return std::make_unique<clocked_worker>(std::move(c), clock_policy{.staleness = s + 1, .pull = true});
  };
  all.modes.add(off);
  const auto wrong_tables = std::make_shared<const tables>(std::move(all));
  must_be_found("staleness off by one", [&](std::uint64_t seed) {
    const auto shape = draw_shape(seed, {.mode = "ssp", .options = {{"staleness", std::to_string(1 + seed % 3)}}});
    clocked_checker order(1 + seed % 3);
    return noticed(
        {.job = prepare_mode(shape, wrong_tables), .config = draw_world(seed, shape.workers, dev.get()), .checkers = {&order}});
  });
}

// Applies a step when one packet is still missing.
struct early_apply final : mistake {
  std::map<std::pair<std::uint32_t, std::uint64_t>, std::set<std::uint32_t>> came;
  std::vector<double> zeros = std::vector<double>(4096, 0.0);
  void play(role& inner, role_id self, const envelope& in, time_point now, effects& out, const prepared_job& j) override {
    inner.on(in, now, out);
    const auto* p = std::get_if<push>(&in.body);
    if (!p || !is(j.plan, self, role_kind::shard)) return;
    auto& have = came[{p->block, in.h.step}];
    for (auto k = p->first; k < std::min(p->first + p->span, j.plan.packets); ++k) have.insert(k);
    if (have.size() + 1 != j.plan.packets) return;
    auto missing = in;
    std::uint32_t k = 0;
    while (have.count(k)) ++k;
    missing.body = push{p->block, k, 1, tensor::borrow(zeros.data(), p->sum.dims(), p->sum.type())};
    inner.on(missing, now, out);
  }
};

TEST(laws_mistakes, early_apply_is_found) {
  const auto dev = make_cpu_device();
  must_be_found("early apply", [&](std::uint64_t seed) {
    const auto shape = draw_shape(seed, {.mode = "bsp"});
    clocked_checker order(0);
    early_apply wrong;
    return noticed(
        {.job = prepare_mode(shape), .config = draw_world(seed, shape.workers, dev.get()), .checkers = {&order}, .wrong = &wrong});
  });
}

// A reducer that takes a repeated sum for one of the next step.
struct counted_again final : mistake {
  std::set<std::tuple<role_id, role_id, std::uint32_t, std::uint64_t, std::uint32_t>> came;
  void play(role& inner, role_id self, const envelope& in, time_point now, effects& out, const prepared_job& j) override {
    auto e = in;
    const auto* p = std::get_if<push>(&e.body);
    if (p && is(j.plan, self, role_kind::reducer) && !came.insert({self, e.h.src, p->block, e.h.step, p->first}).second) ++e.h.step;
    inner.on(e, now, out);
  }
};

TEST(laws_mistakes, sum_that_a_reducer_counts_again_is_found) {
  const auto dev = make_cpu_device();
  must_be_found("counted again", [&](std::uint64_t seed) {
    const auto shape = draw_shape(seed, {.mode = "bsp", .net = "tally", .reducer = "tree", .lr = -1});
    counted_again wrong;
    const auto got = run({.job = prepare_mode(shape), .config = draw_world(seed, shape.workers, dev.get()), .wrong = &wrong});
    return got.violation.empty() ? off_ledger(got, shape, 1.0 / shape.packets) : got.violation;
  });
}

// Reports that it has flushed without pushing the gradients it held back.
struct lost_residual final : mistake {
  void play(role& inner, role_id self, const envelope& in, time_point now, effects& out, const prepared_job& j) override {
    const auto before = static_cast<std::ptrdiff_t>(out.list().size());
    inner.on(in, now, out);
    auto& list = out.list();
    const auto flushes = [](const effect& e) { return sent<ready>(e) && sent<ready>(e)->what == ready::what_of::flushed; };
    if (!is(j.plan, self, role_kind::worker) || std::none_of(list.begin() + before, list.end(), flushes)) return;
    list.erase(std::remove_if(list.begin() + before, list.end(), [](const effect& e) { return sent<push>(e) != nullptr; }),
               list.end());
  }
};

TEST(laws_mistakes, lost_residual_is_found) {
  const auto dev = make_cpu_device();
  must_be_found("lost residual", [&](std::uint64_t seed) {
    const auto shape = downpour_tally(seed);
    lost_residual wrong;
    const auto got = run({.job = prepare_mode(shape), .config = draw_world(seed, shape.workers, dev.get()), .wrong = &wrong});
    return got.violation.empty() ? off_ledger(got, shape) : got.violation;
  });
}

// A worker that pushes its difference to the centre twice; a gossip worker that sends its share
// twice.
struct double_reply final : mistake {
  void play(role& inner, role_id self, const envelope& in, time_point now, effects& out, const prepared_job& j) override {
    const auto before = out.list().size();
    inner.on(in, now, out);
    if (!is(j.plan, self, role_kind::worker)) return;
    const auto n = out.list().size();
    for (auto i = before; i < n; ++i) {
      const auto* u = sent<user>(out.list()[i]);
      if (!sent<push>(out.list()[i]) && !(u && u->type == 1)) continue;
      auto again = std::get<send_effect>(out.list()[i]).e;
      ++again.h.step;
      out.send(std::move(again));
    }
  }
};

TEST(laws_mistakes, double_reply_is_found) {
  const auto dev = make_cpu_device();
  must_be_found("double reply to the centre", [&](std::uint64_t seed) {
    const auto shape = draw_shape(seed, {.mode = "easgd", .options = {{"alpha", "0.3"}, {"tau", "2"}}});
    elastic_checker sums(0.3);
    double_reply wrong;
    return noticed(
        {.job = prepare_mode(shape), .config = draw_world(seed, shape.workers, dev.get()), .checkers = {&sums}, .wrong = &wrong});
  });
  must_be_found("share sent twice", [&](std::uint64_t seed) {
    const auto shape = draw_shape(seed, {.mode = "gossip", .options = {{"every", "2"}}, .layers = 1});
    mass_checker masses;
    double_reply wrong;
    return noticed(
        {.job = prepare_mode(shape), .config = draw_world(seed, shape.workers, dev.get()), .checkers = {&masses}, .wrong = &wrong});
  });
}

}  // namespace
}  // namespace troupe::testing
