// Robustness: every role of every mode gets messages of every kind with any field replaced, and
// messages of the run repeated, delayed, with another source or destination; all as they would be
// decoded from the wire. A job may then stop or end with an error; no role crashes.
// TROUPE_ROLE_MESSAGES=1000000 for the long run.
#include <deque>
#include <map>

#include "runtime/messages/crossing.hpp"
#include "runtime/messages/fits.hpp"
#include "tests/environment.hpp"
#include "tests/runtime/messages/wire_samples.hpp"
#include "tests/sim/chain_job.hpp"
#include "tests/sim/mode_checkers.hpp"
#include "tests/sim/small_job.hpp"

namespace troupe::testing {
namespace {

class anything final : public mistake {
 public:
  explicit anything(std::uint64_t seed, std::uint64_t rare) : g_(seed), rare_(rare) {
    for (const auto& e : wire_samples::travelling_samples()) samples_.push_back(wire_samples::joined(encode(e)));
  }
  std::map<role_kind, std::uint64_t> announced;
  std::map<std::string, std::uint64_t> kinds;
  std::uint64_t total = 0;

  void play(role& inner, role_id self, const envelope& in, time_point now, effects& out, const prepared_job& j) override {
    inner.on(in, now, out);
    if (host_only(in.body)) return;  // internal completions come only from the role's own host
    heard_.push_back(in);
    if (heard_.size() > 200) heard_.pop_front();
    for (; g_() % rare_ == 0;) {
      envelope e;
      if (!invent(e, j)) continue;
      e.h.dst = self;
      ++announced[j.plan[self].kind];
      ++kinds[name_of(e.body)];
      ++total;
      inner.on(e, now, out);
    }
  }

 private:
  std::uint64_t number() {
    switch (g_() % 5) {
      case 0: return g_() % 4;
      case 1: return ~0ull >> (g_() % 64);
      case 2: return g_() % 40;
      case 3: return 1ull << (g_() % 64);
      default: return g_();
    }
  }
  static std::vector<std::uint8_t> bytes_of(envelope e) {
    cross(e, *device_of_run(), device_of_run()->host());
    return wire_samples::joined(encode(e));
  }
  // Returns false if the wire format or the host would reject the message.
  bool invent(envelope& e, const prepared_job& j) {
    const auto& real = heard_[g_() % heard_.size()];
    auto b = g_() % 3 == 0 ? samples_[g_() % samples_.size()] : bytes_of(real);
    if (b.size() < wire_prefix_bytes) return false;
    constexpr std::size_t header_bytes = wire_prefix_bytes - 8;
    std::uint32_t fields = 0;
    std::memcpy(&fields, b.data() + wire_prefix_bytes - sizeof fields, sizeof fields);
    for (auto n = g_() % 4; n > 0; --n) {  // none: repeat a real message
      const bool header = g_() % 2 || fields == 0;
      const auto width = std::size_t{1} << (g_() % 4);
      const auto at = header ? g_() % header_bytes : wire_prefix_bytes + g_() % fields;
      const auto v = number();
      const auto limit = header ? header_bytes : std::min<std::size_t>(b.size(), wire_prefix_bytes + fields);
      std::memcpy(b.data() + at, &v, std::min(width, limit - at));
    }
    if (!wire_samples::decode_bytes(b, e) || !has_values(e)) return false;
    if (index_of(e.h.src) >= j.plan.roles.size()) e.h.src = role_id{static_cast<std::uint32_t>(g_() % j.plan.roles.size())};
    e.h.job = real.h.job;
    return true;
  }

  std::mt19937_64 g_;
  std::uint64_t rare_;
  std::vector<std::vector<std::uint8_t>> samples_;
  std::deque<envelope> heard_;
};

const std::vector<mode_shape>& all_modes() {
  static const std::vector<mode_shape> modes{{.mode = "bsp", .max_skipped = 2},
                                             {.mode = "bsp", .rule = "adam", .reducer = "tree", .clip_norm = 1},
                                             {.mode = "ssp", .options = {{"staleness", "2"}}},
                                             {.mode = "sandblaster"},
                                             {.mode = "downpour", .options = {{"n_push", "2"}}},
                                             {.mode = "easgd", .options = {{"alpha", "0.2"}, {"tau", "2"}}},
                                             {.mode = "easgd", .options = {{"tau", "2"}, {"variant", "sync"}}, .rule = "momentum"},
                                             {.mode = "eamsgd", .options = {{"tau", "2"}}, .rule = "nesterov"},
                                             {.mode = "gossip", .options = {{"every", "2"}}, .rule = "momentum"},
                                             {.mode = "group_sync", .options = {{"sync_freq", "3"}}},
                                             {.mode = "hogwild"}};
  return modes;
}

std::shared_ptr<prepared_job> job_with_every_kind_of_role() {
  auto spec = small_spec({.packets = 4, .workers = 2});
  spec.data.sampler = {"served", checked({}, shared_tables()->samplers.find("served")->specs), {}};
  spec.train.reducer = "tree";
  spec.train.reducer_values.values["arity"] = std::int64_t{2};
  spec.topology.replicas = 2;
  spec.train.finish.steps = 6;
  auto made = prepare_job(spec, shared_tables(), nodes_named(2));
  return !made ? nullptr : *made;
}

std::shared_ptr<prepared_job> bare_job_of(std::uint64_t seed) {
  const auto which = seed % (all_modes().size() + 1);
  if (which == all_modes().size()) return job_with_every_kind_of_role();
  auto shape = draw_shape(seed, all_modes()[which]);
  shape.workers = 2 + shape.workers % 3;
  shape.packets = 2 * shape.workers;
  shape.lr = 0.01;
  shape.steps = 6;
  shape.test = 11;
  shape.eval_every = 3;
  if (shape.mode == "group_sync" || shape.mode == "hogwild") shape.groups = shape.server_groups = shape.workers, shape.shards = 1;
  if (shape.mode == "downpour") shape.groups = shape.workers;
  return prepare_mode(shape);
}

std::shared_ptr<prepared_job> job_of(std::uint64_t seed) {
  auto j = bare_job_of(seed);
  if (j) j->keeps_best = true, j->histograms_every = 2;
  return j;
}

TEST(laws_anything, no_role_crashes_on_any_message) {
  const auto most = from_environment("TROUPE_ROLE_MESSAGES", 30'000);
  std::map<role_kind, std::uint64_t> announced;
  std::map<std::string, std::uint64_t> kinds;
  std::uint64_t total = 0, jobs = 0, ended = 0;
  const std::uint64_t known = 99387;  // seed of a former bug: a worker joined at a huge step, and each step below was opened
  for (auto seed = known; total < most; seed = jobs == 0 ? first_seed() : seed + 1, ++jobs) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const auto j = job_of(seed);
    ASSERT_TRUE(j);
    anything wrong(seed, 2 + seed % 5 * 4);
    mode_run r{.job = j, .config = draw_world(seed, 0, cpu().get()), .limit = 100'000};
    r.wrong = &wrong;
    ended += run(r).done ? 1 : 0;
    total += wrong.total;
    for (const auto& [k, n] : wrong.announced) announced[k] += n;
    for (const auto& [k, n] : wrong.kinds) kinds[k] += n;
    ASSERT_LT(jobs, most) << "no message was injected";
  }
  for (const auto& row : role_table()) EXPECT_GT(announced[row.kind], 0u) << row.name;
  for (const auto& e : wire_samples::travelling_samples()) {
    EXPECT_TRUE(total < 30'000 || !has_values(e) || kinds[name_of(e.body)] > 0) << name_of(e.body);
  }
  std::printf("%llu messages of %zu kinds to %zu kinds of roles in %llu jobs, of which %llu ended nevertheless\n",
              static_cast<unsigned long long>(total), kinds.size(), announced.size(), static_cast<unsigned long long>(jobs),
              static_cast<unsigned long long>(ended));
}

// Without faults no message is repeated or unexpected. Outdated ones occur by design: in ssp,
// weights that a newer version has overtaken; in sandblaster, what the slower of two backups
// computes.
TEST(laws_drops, an_undisturbed_run_drops_nothing_in_any_mode) {
  for (std::uint64_t seed = 1; seed <= 3 * (all_modes().size() + 1); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const auto j = job_of(seed);
    ASSERT_TRUE(j);
    const bool outdates = j->spec.train.sync.kind == "ssp" || j->spec.train.sync.kind == "sandblaster";
    const auto r = run({.job = j, .config = draw_world(seed, 0, cpu().get())});
    EXPECT_EQ(r.violation, "");
    for (auto [role, counts] : r.dropped) {
      if (outdates) counts[drop_reason::outdated] = 0;
      for (std::size_t why = 0; why < drop_reasons; ++why)
        EXPECT_EQ(counts.by_reason[why], 0u) << role << " dropped messages: " << name_of(static_cast<drop_reason>(why));
    }
  }
}

}  // namespace
}  // namespace troupe::testing
