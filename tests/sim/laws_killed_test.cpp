// Invariant of restarts in jobs with placed layers: for any killed pipeline roles at any time, with
// any faults of the wire, no packet is lost and every gradient is applied once. With drain and
// stash the weights equal those of the undisturbed run bit for bit.
#include "tests/sim/killing.hpp"
#include "tests/sim/random_net.hpp"

namespace troupe::testing {
namespace {

mode_run run_of(const std::shared_ptr<prepared_job>& j, std::uint64_t seed, bool faults) {
  auto c = draw_world(seed, static_cast<std::uint32_t>(j->plan.nodes.size()) - 1, cpu().get(), {.crash = false, .faults = faults});
  return {.job = j, .config = c, .limit = 4'000'000};
}

struct tally {
  std::uint64_t ran = 0, killed = 0, stale = 0, lost = 0;
  std::map<role_kind, std::uint64_t> whom;
  void add(const mode_result& r, const std::vector<killing>& all, const job_plan& p) {
    ++ran, killed += r.counts.crashed, stale += r.counts.stale, lost += r.counts.lost_in_crash;
    for (const auto& k : all)
      for (auto w : k.whom) ++whom[p[w].kind];
  }
};

// Returns the first error of the run with killings; empty if there is none.
std::string disturbed(const std::shared_ptr<prepared_job>& j, std::uint64_t seed, tally* sums, mistake* wrong = nullptr,
                      bool bitwise = true, const std::function<std::string(const run_result&)>& also = {}) {
  const auto calm = run(run_of(j, seed, false));
  if (!calm.violation.empty()) return "undisturbed: " + calm.violation;
  auto r = run_of(j, seed, seed % 3 != 0);
  const auto all = draw_killings(j->plan, seed, calm.took);
  r.prepare = [&](sim::world& w) { kill_in(w, all, j->plan); };
  r.wrong = wrong;
  const auto got = run(r);
  if (sums) sums->add(got, all, j->plan);
  auto what = got.violation;
  if (what.empty() && bitwise) what = differs(got, calm);
  if (what.empty() && also) what = also(got);
  return what.empty() ? what : what + "\nkilled: " + text_of(all, j->plan);
}

std::shared_ptr<prepared_job> random_placed(std::uint64_t seed) {
  random_net net(seed);
  auto spec = net.job();
  spec.train.finish.steps = net.draw(2, 5);
  const std::vector<const char*> samplers{"shuffle", "shuffle", "shuffle", "served", "seeded", "replicate"};
  const auto& kind = samplers[seed % samplers.size()];
  spec.data.sampler = {kind, checked({}, shared_tables()->samplers.find(kind)->specs), {}};
  bool feature = false;
  net.place(spec, 4, feature);
  if (seed % 3 == 1) net.gather(spec, 0.7);
  auto nodes = apart_nodes(4);
  if (seed % 2) nodes = chain_nodes(4);
  auto made = prepare_job(spec, shared_tables(), nodes);
  if (!made) return nullptr;
  const auto j = *made;
  j->restarts = true;
  return j->plan.placed ? j : nullptr;
}

TEST(laws_killed, killed_roles_lose_no_packet_of_any_net) {
  tally sums;
  for (auto seed = first_seed(); sums.ran < seeds(300); ++seed) {
    const auto j = random_placed(seed);
    if (!j) continue;
    ASSERT_EQ(disturbed(j, seed, &sums), "") << "seed " << seed;
  }
  EXPECT_GE(sums.killed, sums.ran);
  if (seeds() < 50) return;
  EXPECT_GT(sums.stale, 0u);
  EXPECT_GT(sums.lost, 0u);
  for (auto kind : {role_kind::stage, role_kind::loader, role_kind::worker}) EXPECT_GT(sums.whom[kind], 0u) << name_of(kind);
}

TEST(laws_killed, pipelines_of_every_weight_rule_apply_each_gradient_once) {
  tally sums;
  for (auto seed = first_seed(); sums.ran < seeds(300); ++seed) {
    auto shape = draw_chain(seed);
    shape.weights = seed % 3 == 0 ? "drain" : seed % 3 == 1 ? "stash" : "latest";
    const auto j = ledger_chain(shape);
    mode_shape once;
    once.steps = shape.steps;
    ASSERT_EQ(disturbed(j, seed, &sums, nullptr, true, [&](const run_result& r) { return off_ledger(r, once); }), "")
        << "seed " << seed << ", " << shape.weights;
  }
}

TEST(laws_killed, stash_and_drain_equal_the_undisturbed_run_bit_for_bit) {
  tally sums;
  for (auto seed = first_seed(); sums.ran < seeds(300); ++seed) {
    auto shape = draw_chain(seed);
    shape.weights = seed % 4 == 0 ? "drain" : "stash";
    const auto spec = chain_spec(shape);
    auto made = prepare_job(spec, shared_tables(), seed % 2 ? apart_nodes(nodes_of(shape)) : chain_nodes(nodes_of(shape)));
    ASSERT_TRUE(made) << made.error().front().to_string();
    const auto j = *made;
    j->restarts = true;
    ASSERT_EQ(disturbed(j, seed, &sums), "") << "seed " << seed << ", " << shape.weights;
  }
}

// --- planted mistakes

void must_be_found(const char* name, const std::function<std::unique_ptr<mistake>()>& make) {
  for (std::uint64_t seed = 1; seed < 300; ++seed) {
    auto shape = draw_chain(seed);
    shape.weights = seed % 2 ? "stash" : "drain";
    const auto wrong = make();
    mode_shape once;
    once.steps = shape.steps;
    const auto what =
        disturbed(ledger_chain(shape), seed, nullptr, wrong.get(), true, [&](const run_result& r) { return off_ledger(r, once); });
    if (what.empty()) continue;
    std::printf("%s: found at seed %llu: %s\n", name, static_cast<unsigned long long>(seed), what.c_str());
    return;
  }
  FAIL() << name << " has not been found in 300 seeds";
}

// Takes a message that a restarted role repeats for a new one: the worker sync adds a packet's
// gradient to its sums again.
struct half_counted_again final : mistake {
  std::map<role_id, std::set<std::tuple<std::uint32_t, std::uint64_t, std::uint32_t>>> seen;  // by worker sync: layer, step, packet
  std::map<std::pair<std::uint32_t, std::uint64_t>, std::vector<tensor>> extra;               // by layer, step
  void play(role& inner, role_id self, const envelope& in, time_point now, effects& out, const prepared_job& j) override {
    const auto before = out.list().size();
    const auto* g = std::get_if<gradient>(&in.body);
    if (g && is(j.plan, self, role_kind::worker) && !seen[self].insert({g->layer, in.h.step, in.h.packet}).second)
      extra[{g->layer, in.h.step}].push_back(g->grads.front());
    inner.on(in, now, out);
    for (auto i = before; i < out.list().size(); ++i) {
      auto* s = std::get_if<send_effect>(&out.list()[i]);
      auto* p = s ? std::get_if<push>(&s->e.body) : nullptr;
      if (!p) continue;
      const auto& b = j.plan.blocks[p->block];
      auto& more = extra[{j.graph.params[b.param].layer, s->e.h.step}];
      for (const auto& t : more) {
        auto sum = tensor::allocate(*cpu(), p->sum.dims(), p->sum.type());
        cpu()->apply(binary::add, p->sum, t.slice(b.begin, {b.count}), sum);
        p->sum = sum;
      }
      more.clear();
    }
  }
};

// Roles of one kind that ignore the start of a restarted neighbour: they repeat no message.
struct nothing_again_of_kind final : mistake {
  role_kind kind = role_kind::stage;
  explicit nothing_again_of_kind(role_kind k) : kind(k) {}
  void play(role& inner, role_id self, const envelope& in, time_point now, effects& out, const prepared_job& j) override {
    if (std::holds_alternative<start>(in.body) && is(j.plan, self, kind) && in.h.src != no_role) return;
    inner.on(in, now, out);
  }
};

// Repeats forwards but not backwards.
struct one_backward_lost final : mistake {
  void play(role& inner, role_id, const envelope& in, time_point now, effects& out, const prepared_job&) override {
    const auto before = static_cast<std::ptrdiff_t>(out.list().size());
    inner.on(in, now, out);
    if (!std::holds_alternative<start>(in.body)) return;
    std::erase_if(out.list(), [&, i = std::ptrdiff_t{0}](const effect& e) mutable { return i++ >= before && sent<backward>(e); });
  }
};

// A restarted stage gets only the newest weights.
struct newest_alone final : mistake {
  void play(role& inner, role_id self, const envelope& in, time_point now, effects& out, const prepared_job& j) override {
    const auto before = out.list().size();
    inner.on(in, now, out);
    if (!is(j.plan, self, role_kind::worker) || !std::holds_alternative<start>(in.body)) return;
    std::map<std::uint32_t, std::uint64_t> newest;
    for (auto i = before; i < out.list().size(); ++i) {
      header h;
      if (const auto* w = sent<layer_weights>(out.list()[i], &h)) newest[w->layer] = std::max(newest[w->layer], h.version);
    }
    std::erase_if(out.list(), [&](const effect& e) {
      header h;
      const auto* w = sent<layer_weights>(e, &h);
      return w && h.version < newest[w->layer];
    });
  }
};

TEST(laws_killed, planted_mistakes_are_found) {
  must_be_found("gradient is counted again", [] { return std::make_unique<half_counted_again>(); });
  must_be_found("stages repeat no message", [] { return std::make_unique<nothing_again_of_kind>(role_kind::stage); });
  must_be_found("loaders repeat no message", [] { return std::make_unique<nothing_again_of_kind>(role_kind::loader); });
  must_be_found("weights are not repeated", [] { return std::make_unique<nothing_again_of_kind>(role_kind::worker); });
  must_be_found("backwards are not repeated", [] { return std::make_unique<one_backward_lost>(); });
  must_be_found("only the newest weights are repeated", [] { return std::make_unique<newest_alone>(); });
}

}  // namespace
}  // namespace troupe::testing
