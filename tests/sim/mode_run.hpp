// An observed run of a job in a world with faults: every role is wrapped, so that checkers see each
// message with its effects, and a planted mistake can intercept a role's messages.
//
//   checker     sees (role, message in, effects out) after the fact; keeps the first violation with
//               its virtual time
//   mistake     acts as a faulty role: may change the messages that the role gets and sends
//   draw_world  network, stragglers and every kind of fault, from a seed
#pragma once

#include <cmath>
#include <map>
#include <set>
#include <span>
#include <sstream>
#include <stdexcept>

#include "tests/environment.hpp"
#include "tests/sim/mode_job.hpp"
#include "tests/valid_events.hpp"

namespace troupe::testing {

// The first seed of an invariant test: TROUPE_SEED, or 1.
inline std::uint64_t first_seed() { return from_environment("TROUPE_SEED", 1); }

// The seeds of an invariant test: seeds() of them from first_seed() on, plus seeds that once found
// a bug.
inline std::vector<std::uint64_t> law_seeds(std::uint64_t in_ci = 200) {
  std::vector<std::uint64_t> all(seeds(in_ci));
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = first_seed() + i;
  if (!std::getenv("TROUPE_SEED"))
    for (const std::uint64_t s : {233, 403, 607, 778, 830, 880, 947, 993, 1302, 1694, 2555, 2838, 4232, 7777, 7871})
      if (s > all.size()) all.push_back(s);
  return all;
}

// The device of the current run, and access to a message's tensors on the host. Tests run one at a
// time, each on one device.
inline device*& device_of_run() {
  static device* d = nullptr;
  return d;
}
inline tensor looked_at(const tensor& t) { return device_of_run() ? at_home(*device_of_run(), t) : t; }
inline std::vector<double> values(const tensor& t) {
  const auto here = looked_at(t);
  return {here.data<double>(), here.data<double>() + here.count()};
}

struct seen_event {
  role_id self;
  const envelope& in;
  std::span<effect> out;
  time_point now;
};

class checker {
 public:
  virtual ~checker() = default;
  void see(const seen_event& s, const prepared_job& j) {
    now_ = s.now;
    if (first_.empty()) watch(s, j);
  }
  // Called after the run.
  virtual void close(const prepared_job& j) { (void)j; }
  const std::string& violation() const { return first_; }
  std::uint64_t checks() const { return checks_; }

 protected:
  virtual void watch(const seen_event& s, const prepared_job& j) = 0;
  // Records the first violation.
  void must(bool holds, const std::function<std::string()>& what) {
    ++checks_;
    if (holds || !first_.empty()) return;
    first_ = "at " + std::to_string(now_.count()) + " ns: " + what();
  }

 private:
  time_point now_{};
  std::string first_;
  std::uint64_t checks_ = 0;
};

class mistake {
 public:
  virtual ~mistake() = default;
  // Called instead of inner.on(); passes the message to `inner`, changed or not.
  virtual void play(role& inner, role_id self, const envelope& in, time_point now, effects& out, const prepared_job& j) = 0;
};

class watched_role final : public role {
 public:
  watched_role(role_id self, std::unique_ptr<role> inner, std::shared_ptr<const prepared_job> j,
               const std::vector<checker*>& checkers, mistake* wrong)
      : self_(self), inner_(std::move(inner)), job_(std::move(j)), checkers_(checkers), wrong_(wrong) {}
  void on(const envelope& e, time_point now, effects& out) override {
    const auto before = out.list().size();
    if (wrong_)
      wrong_->play(*inner_, self_, e, now, out, *job_);
    else
      inner_->on(e, now, out);
    for (auto* c : checkers_) c->see({self_, e, std::span(out.list()).subspan(before), now}, *job_);
  }
  role_status status() const override { return inner_->status(); }
  drop_counts dropped() const override { return inner_->dropped(); }

 private:
  role_id self_;
  std::unique_ptr<role> inner_;
  std::shared_ptr<const prepared_job> job_;
  std::vector<checker*> checkers_;
  mistake* wrong_;
};

struct mode_run {
  std::shared_ptr<prepared_job> job;
  sim::world_config config;
  std::vector<checker*> checkers = {};
  mistake* wrong = nullptr;
  std::function<int(const envelope&, sim::random&)> copies = {};
  std::function<void(sim::world&)> prepare = {};  // schedules user commands etc.
  std::function<void(sim::world&, const event_effect&)> on_event = {};
  read_hook on_read = {};
  std::uint64_t limit = 20'000'000;
};

struct mode_result : run_result {
  sim::fault_counts counts;
  std::map<std::string, drop_counts> dropped;  // by role, of those that dropped a message
  std::string error;                           // error of the job
  std::string violation;                       // of a checker, or that the job did not end
  std::vector<std::pair<std::string, tensor>> checkpoint;
  time_point took{};
  const tensor& weight(const std::string& name) const {
    for (const auto& [n, t] : weights)
      if (n == name) return t;
    static const tensor none;
    return none;
  }
};

// Prints a delivery. TROUPE_TRACE=1 prints all of them, to debug one failing seed.
inline void print_delivery(const envelope& e, time_point now, const job_plan& p) {
  const auto name = [&](role_id r) { return index_of(r) < p.roles.size() ? p[r].name.c_str() : "-"; };
  unsigned block = 0;
  double first = -1;  // element 0; -1 without values
  const auto note = [&](const tensor& t) { first = t.backed() && t.type() == dtype::f64 ? looked_at(t).data<double>()[0] : -1; };
  if (const auto* a = std::get_if<push>(&e.body)) block = a->block, note(a->sum);
  if (const auto* a = std::get_if<weights>(&e.body)) block = a->block, note(a->value);
  if (const auto* a = std::get_if<fetch>(&e.body)) block = a->block;
  if (const auto* a = std::get_if<state>(&e.body)) block = a->block, note(a->value);
  if (const auto* r = std::get_if<ready>(&e.body)) block = static_cast<unsigned>(r->what);  // flushed, adopted, work unit
  if (const auto* x = std::get_if<work_unit>(&e.body)) block = x->first, first = static_cast<double>(x->step);
  std::printf("%lld %s -> %s %s step %llu version %llu packet %u block %u flags %x epoch %u inc %u attempt %u first %g\n",
              static_cast<long long>(now.count()), name(e.h.src), name(e.h.dst), name_of(e.body),
              static_cast<unsigned long long>(e.h.step), static_cast<unsigned long long>(e.h.version), e.h.packet, block, e.h.flags,
              e.h.mode_epoch, e.h.incarnation, e.h.attempt, first);
}

inline mode_result run(const mode_run& r) {
  auto config = r.config;
  config.allow_mistakes = config.allow_mistakes || r.wrong;
  sim::world w(config);
  w.copies = r.copies;
  reads() = r.on_read;
  device_of_run() = r.config.dev;
  for (const auto& p : r.job->plan.roles)
    w.add(p.id, p.node, std::make_unique<watched_role>(p.id, make_role(r.job, p.id), r.job, r.checkers, r.wrong), p.device);
  mode_result out;
  w.on_event = [&](const event_effect& e) {
    valid_events::expect_valid(e);
    out.events.push_back(e);
    out.done = out.done || e.is<done_event>() || e.is<error_event>();
    if (e.is<error_event>()) out.error = message_of(e);
    if (r.on_event) r.on_event(w, e);
  };
  w.on_store = [&](const store_effect& s) { (s.what == store_effect::kind_of::weights ? out.weights : out.checkpoint) = s.named; };
  if (std::getenv("TROUPE_TRACE")) w.on_deliver = [&](const envelope& e, time_point now) { print_delivery(e, now, r.job->plan); };
  envelope go;
  go.h.dst = role_id{0};
  go.body = start{};
  w.inject(go);
  if (r.prepare) r.prepare(w);
  bool quiet = false;
  try {
    quiet = w.run(r.limit, [&] { return out.done; });
  } catch (const std::logic_error& mistake) {
    out.violation = mistake.what();
  }
  reads() = {};
  out.trace = w.trace_hash();
  out.events_handled = w.events();
  out.counts = w.counts();
  out.took = w.now();
  for (const auto& p : r.job->plan.roles)
    if (const auto* role = w.find(p.id); role && role->dropped().total() > 0) out.dropped[p.name] = role->dropped();
  for (auto* c : r.checkers) {
    if (out.done && out.error.empty()) c->close(*r.job);
    if (out.violation.empty()) out.violation = c->violation();
  }
  if (!out.done && out.violation.empty()) {
    std::ostringstream s;
    s << (quiet ? "no events are left" : "the job did not end") << " at " << w.now().count() << " ns after " << w.events()
      << " events;";
    for (const auto& p : r.job->plan.roles)
      if (const auto* role = w.find(p.id)) {
        const auto st = role->status();
        if (!st.waits_for.empty()) s << " " << p.name << " (step " << st.step << ") waits for " << st.waits_for << ";";
      }
    out.violation = s.str();
  }
  if (!out.error.empty() && out.violation.empty()) out.violation = "job error: " + out.error;
  device_of_run() = nullptr;
  return out;
}

// --- faults of a seed

struct fault_wish {
  bool faults = true;  // any faults
  bool above = true;   // second copies above the channel
};

inline sim::world_config draw_world(std::uint64_t seed, std::uint32_t worker_nodes, device* dev, const fault_wish& wish = {}) {
  std::mt19937_64 g(seed * 7919 + 17);
  const auto below = [&](std::uint64_t n) { return g() % n; };
  const auto us = [](std::uint64_t n) { return duration(static_cast<std::int64_t>(n) * 1000); };
  sim::world_config c;
  c.seed = seed;
  c.dev = dev;
  c.network.least = us(1 + below(20));
  c.network.most = c.network.least + us(1 + below(200));
  c.network.shuffle_local = below(2) == 0;
  c.compute.floor = us(1 + below(20));
  c.compute.cores = 1 + static_cast<unsigned>(below(2));
  c.compute.kind = below(2) ? sim::straggle::lognormal : sim::straggle::exponential;
  c.compute.spread = 0.1 + 0.1 * static_cast<double>(below(10));
  if (!wish.faults || worker_nodes == 0) return c;
  const auto chance = [&] { return 0.01 * static_cast<double>(1 + below(12)); };
  using sim::fault_kind;
  const auto worker_node = [&] { return 1 + static_cast<std::uint32_t>(below(worker_nodes)); };
  const auto with_chance = [&](fault_kind kind, double p, std::uint64_t least, std::uint64_t most, bool above = false) {
    sim::fault f;
    f.kind = kind, f.probability = p, f.least = us(least), f.most = us(most), f.above = above;
    c.faults.list.push_back(f);
  };
  const auto in_window = [&](fault_kind kind, std::uint64_t from, std::uint64_t until,
                             std::vector<std::uint32_t> nodes) -> sim::fault& {
    sim::fault f;
    f.kind = kind, f.from = us(from), f.until = us(until), f.nodes = std::move(nodes);
    c.faults.list.push_back(f);
    return c.faults.list.back();
  };
  if (below(2)) with_chance(fault_kind::drop, chance(), 0, 0);
  if (below(2)) with_chance(fault_kind::reorder, 2 * chance(), 10, 600);
  if (below(2)) with_chance(fault_kind::duplicate, chance(), 0, 0);
  if (wish.above && below(4) > 0) with_chance(fault_kind::duplicate, 2 * chance(), 0, 0, true);
  if (below(2)) with_chance(fault_kind::delay, chance(), 50, 2000);
  if (below(3) == 0) {
    const auto from = 500 + below(5000);
    in_window(fault_kind::partition, from, from + 200 + below(3000), {worker_node()});
  }
  if (below(2)) {
    const auto from = below(3000);
    in_window(fault_kind::slow, from, from + 1000 + below(20000), {worker_node()}).factor = 2.0 + static_cast<double>(below(40));
  }
  return c;
}

// Draws a slowness factor in [1, most] for every worker; each is on its own node.
inline void draw_speeds(sim::world_config& c, std::uint64_t seed, std::uint32_t workers, double most) {
  std::mt19937_64 g(seed * 15485863 + 11);
  for (std::uint32_t w = 0; w < workers; ++w)
    c.compute.slow.emplace_back(1 + w, std::pow(most, static_cast<double>(g() % 1001) / 1000));
}

// Sends a user command to the coordinator.
inline void say(sim::world& w, command c) {
  envelope e;
  e.h.dst = role_id{0};
  e.body = std::move(c);
  w.inject(e);
}

// Sums of the fault counts over all seeds of a test.
struct fault_sums {
  sim::fault_counts all;
  void add(const sim::fault_counts& c) {
    all.delayed += c.delayed, all.reordered += c.reordered, all.duplicated_on_wire += c.duplicated_on_wire;
    all.duplicated_above += c.duplicated_above, all.dropped += c.dropped, all.cut_off += c.cut_off;
    all.slowed += c.slowed, all.straggled += c.straggled;
    all.resent += c.resent, all.wire_duplicates += c.wire_duplicates, all.held += c.held;
  }
  // Expects that every kind of fault occurred. Checked only with at least 50 seeds.
  void expect_all(const fault_wish& wish = {}) const {
    if (seeds() < 50) return;
    EXPECT_GT(all.delayed, 0u);
    EXPECT_GT(all.reordered, 0u);
    EXPECT_GT(all.duplicated_on_wire, 0u);
    EXPECT_GT(all.dropped, 0u);
    EXPECT_GT(all.cut_off, 0u) << "partition";
    EXPECT_GT(all.slowed, 0u);
    EXPECT_GT(all.straggled, 0u);
    EXPECT_GT(all.resent, 0u);
    EXPECT_GT(all.wire_duplicates, 0u);
    EXPECT_GT(all.held, 0u);
    if (wish.above) {
      EXPECT_GT(all.duplicated_above, 0u);
    }
  }
};

// Draws workers, shards, packets and steps from a seed.
inline mode_shape draw_shape(std::uint64_t seed, mode_shape s) {
  std::mt19937_64 g(seed * 104729 + 3);
  s.workers = 2 + static_cast<std::uint32_t>(g() % 15);
  s.shards = 1 + static_cast<std::uint32_t>(g() % 4);
  s.packets = s.workers + static_cast<std::uint32_t>(g() % (s.workers + 1));
  s.sub_solvers = 1 + static_cast<std::uint32_t>(g() % 2);
  s.fuse = g() % 2 ? "auto" : "none";
  s.steps = 20 + g() % 5;
  return s;
}

}  // namespace troupe::testing
