// Invariant checkers, one per mode. They observe messages and effects, do not know the internals of
// a role, and keep the first violation. Also: jobs for them, and the expected ledger at the end of
// a run.
#pragma once

#include <cstring>

#include "tests/sim/mode_run.hpp"

namespace troupe::testing {

// Returns the first error in the weights of a tally net: every element must be `want`, i.e. each
// gradient is applied exactly once. Empty if there is none.
inline std::string off_ledger(const run_result& r, const mode_shape& s, double want = 1, double tolerance = 1e-9) {
  std::ostringstream out;
  for (const auto& [name, w] : r.weights)
    for (std::int64_t i = 0; i < w.count(); ++i) {
      const double n = w.data<double>()[i] / want;
      if (std::abs(n - 1) < tolerance) continue;
      const auto steps = static_cast<std::int64_t>(s.steps);
      out << name << ": the gradient of packet " << i / steps << " at step " << i % steps << " has been applied " << n << " times";
      return out.str();
    }
  return r.weights.empty() ? "no weights" : "";
}

// --- helpers for messages

template <class Body>
const Body* sent(const effect& e, header* h = nullptr) {
  const auto* s = std::get_if<send_effect>(&e);
  if (s && h) *h = s->e.h;
  return s ? std::get_if<Body>(&s->e.body) : nullptr;
}
inline bool is(const job_plan& p, role_id r, role_kind k) { return index_of(r) < p.roles.size() && p[r].kind == k; }

// bsp, ssp, sandblaster. A shard sends version v of a block only after it has received a sum of
// every packet of every step < v. A worker passes version t to a stage only after it has received,
// for every block of the layer, version t - staleness or newer; exactly t if the staleness is 0.
class clocked_checker final : public checker {
 public:
  explicit clocked_checker(std::uint64_t staleness) : staleness_(staleness) {}

 private:
  void watch(const seen_event& s, const prepared_job& j) override {
    if (is(j.plan, s.self, role_kind::shard)) shard(s, j);
    if (is(j.plan, s.self, role_kind::worker)) worker(s, j);
  }
  void shard(const seen_event& s, const prepared_job& j) {
    if (const auto* p = std::get_if<push>(&s.in.body))
      for (auto k = p->first; k < std::min(p->first + p->span, j.plan.packets); ++k) came_[{p->block, s.in.h.step}].insert(k);
    for (const auto& e : s.out) {
      header h;
      const auto* w = sent<weights>(e, &h);
      if (!w || h.version == 0) continue;
      const auto& packets = came_[{w->block, h.version - 1}];
      must(packets.size() == j.plan.packets, [&] {
        return "block " + std::to_string(w->block) + " is sent at version " + std::to_string(h.version) + ", but of step " +
               std::to_string(h.version - 1) + " only " + std::to_string(packets.size()) + " packets have arrived";
      });
    }
  }
  void worker(const seen_event& s, const prepared_job& j) {
    if (const auto* w = std::get_if<weights>(&s.in.body)) given_[s.self][w->block].insert(s.in.h.version);
    for (const auto& e : s.out) {
      header h;
      const auto* w = sent<layer_weights>(e, &h);
      if (!w) continue;
      for (const auto& b : j.plan.blocks) {
        if (j.graph.params[b.param].layer != w->layer) continue;
        const auto& have = given_[s.self][b.id];
        const bool fits = staleness_ == 0 ? have.count(h.version) > 0 : !have.empty() && *have.rbegin() + staleness_ >= h.version;
        must(fits, [&] {
          return j.plan[s.self].name + " passes on version " + std::to_string(h.version) + " with block " + std::to_string(b.id) +
                 " at version " + (have.empty() ? "none" : std::to_string(*have.rbegin()));
        });
      }
    }
  }
  std::uint64_t staleness_;
  std::map<std::pair<std::uint32_t, std::uint64_t>, std::set<std::uint32_t>> came_;  // by block, step
  std::map<role_id, std::map<std::uint32_t, std::set<std::uint64_t>>> given_;        // by worker, block: versions
};

// downpour: a shard updates a block exactly once for every distinct (worker, step) that was pushed
// to it.
class push_checker final : public checker {
 private:
  void watch(const seen_event& s, const prepared_job& j) override {
    if (!is(j.plan, s.self, role_kind::shard)) return;
    if (const auto* p = std::get_if<push>(&s.in.body)) different_[s.self].insert({p->block, s.in.h.src, s.in.h.step});
    for (const auto& e : s.out)
      if (const auto* r = std::get_if<run_effect>(&e); r && std::strcmp(r->cost.kind, "update") == 0) ++updates_[s.self];
    must(updates_[s.self] <= different_[s.self].size(), [&] {
      return j.plan[s.self].name + " made " + std::to_string(updates_[s.self]) + " updates from " +
             std::to_string(different_[s.self].size()) + " distinct pushes";
    });
  }
  void close(const prepared_job& j) override {
    for (const auto& [shard, all] : different_)
      must(updates_[shard] == all.size(), [&, from = shard] { return j.plan[from].name + " skipped a push"; });
  }
  std::map<role_id, std::set<std::tuple<std::uint32_t, role_id, std::uint64_t>>> different_;
  std::map<role_id, std::uint64_t> updates_;
};

// easgd: a difference that a worker subtracts from its weights is added to the centre once. A
// worker's difference d for a centre c satisfies d = alpha (w - c), and its weights become w - d.
// The centre that a shard sends is its first value plus every distinct difference received by then.
// So the sum over workers of w, plus c, is the same before and after an exchange.
class elastic_checker final : public checker {
 public:
  explicit elastic_checker(double alpha, bool together = false) : alpha_(alpha), together_(together) {}
  std::uint64_t exchanges = 0;

 private:
  using vec = std::vector<double>;
  static double apart(const vec& a, const vec& b) {
    double most = a.size() == b.size() ? 0 : 1e300;
    for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) most = std::max(most, std::abs(a[i] - b[i]));
    return most;
  }
  void watch(const seen_event& s, const prepared_job& j) override {
    if (is(j.plan, s.self, role_kind::worker)) worker(s, j);
    if (is(j.plan, s.self, role_kind::shard)) shard(s, j);
  }
  void worker(const seen_event& s, const prepared_job& j) {
    if (const auto* w = std::get_if<weights>(&s.in.body)) {  // the first answer to its fetch counts
      const auto at = asked_.find({s.self, w->block, s.in.h.step});
      if (at != asked_.end() && at->second.empty()) at->second = values(w->value);
    }
    for (const auto& e : s.out) {
      header h;
      if (const auto* f = sent<fetch>(e, &h)) asked_[{s.self, f->block, h.step}].clear();
    }
    std::map<std::uint32_t, std::pair<std::uint64_t, vec>> moved;
    for (const auto& e : s.out) {
      header h;
      if (const auto* p = sent<push>(e, &h)) moved[p->block] = {h.step, values(p->sum)};
      const auto* w = sent<layer_weights>(e, &h);
      for (const auto& b : j.plan.blocks) {
        if (!w || j.graph.params[b.param].layer != w->layer || !moved.count(b.id)) continue;
        const auto& [step, d] = moved[b.id];
        const auto& c = asked_[{s.self, b.id, step}];
        const auto left = values(w->values[j.graph.params[b.param].index_in_layer].slice(b.begin, {b.count}));
        vec want = d;
        for (std::size_t i = 0; i < d.size() && i < c.size(); ++i) want[i] = alpha_ * (left[i] + d[i] - c[i]);
        ++exchanges;
        must(c.size() == d.size() && apart(d, want) < 1e-9,
             [&] { return j.plan[s.self].name + " pushes a difference that is not alpha (w - c) for the centre it received"; });
      }
    }
  }
  void shard(const seen_event& s, const prepared_job& j) {
    if (const auto* p = std::get_if<push>(&s.in.body); p && different_.insert({p->block, s.in.h.src, s.in.h.step}).second)
      line_[p->block].push_back(values(p->sum));
    for (const auto& e : s.out) {
      header h;
      if (const auto* first = sent<state>(e, &h); first && h.version == 0) centre_.try_emplace(first->block, values(first->value));
      const auto* w = sent<weights>(e, &h);
      if (!w) continue;
      auto& at = done_[w->block];
      auto& c = centre_[w->block];
      const std::size_t each = together_ ? j.plan.workers.size() : 1;
      for (; at < h.version * each && at < line_[w->block].size(); ++at)
        for (std::size_t i = 0; i < c.size(); ++i) c[i] += line_[w->block][at][i];
      must(at == h.version * each && apart(c, values(w->value)) < 1e-9, [&] {
        return "block " + std::to_string(w->block) + " of version " + std::to_string(h.version) +
               " is not its first value plus the differences received";
      });
    }
  }
  double alpha_;
  bool together_;
  std::map<std::tuple<role_id, std::uint32_t, std::uint64_t>, vec> asked_;  // by worker, block, step: the centre received
  std::map<std::uint32_t, vec> centre_;
  std::map<std::uint32_t, std::vector<vec>> line_;  // by block: differences in order of arrival
  std::map<std::uint32_t, std::size_t> done_;
  std::set<std::tuple<std::uint32_t, role_id, std::uint64_t>> different_;
};

// gossip: masses. Per layer, the masses of the workers and of the shares in flight sum to 1 at
// every moment. A worker's mass is tracked from its messages: 1/N at first; halved when it sends a
// share; increased by a share's mass when the task that merges the share ends. Shares of a layer
// are merged in order of arrival; a second copy is ignored. A share with a count above 0 (its last
// four bytes) is sent at a boundary: the oldest received share, forwarded unchanged; or the
// worker's whole mass; or 1/N of it, to each other worker.
class mass_checker final : public checker {
 public:
  std::uint64_t merges = 0, passed_on = 0, given_away = 0, parted = 0;
  std::map<std::pair<role_id, std::uint64_t>, double> stepped;  // of layer 0, by worker, step: the worker's mass at that step

 private:
  struct parcel {
    double mass;
    std::vector<double> values;
  };
  using key = std::pair<role_id, std::uint32_t>;
  void watch(const seen_event& s, const prepared_job& j) override {
    if (!is(j.plan, s.self, role_kind::worker)) return;
    if (const auto* u = std::get_if<user>(&s.in.body); u && u->type == 1) {
      const auto [layer, mass, count] = unpack(*u);
      if (different_.insert({s.self, s.in.h.src, layer, s.in.h.step, count}).second) arrived_[{s.self, layer}].push_back(mass);
    }
    if (const auto* f = std::get_if<finished>(&s.in.body)) {
      const auto at = merging_.find({s.self, f->token});
      if (at != merging_.end()) {
        mass_of(s.self, at->second.first, j) += at->second.second;
        under_way_[at->second.first] -= at->second.second;
        merging_.erase(at);
        ++merges;
      }
    }
    for (const auto& e : s.out) {
      if (const auto* r = std::get_if<run_effect>(&e); r && std::strcmp(r->cost.kind, "merge") == 0) begin_merge(s, r->token);
      if (const auto* r = std::get_if<run_effect>(&e); r && std::strcmp(r->cost.kind, "update") == 0)
        stepped[{s.self, steps_[s.self]++}] = mass_of(s.self, 0, j);
      if (const auto* u = sent<user>(e); u && u->type == 1) watch_share(s, *u, j);
      // The mass that a worker reports when it flushes or is asked for a copy.
      const auto* st = sent<state>(e);
      if (!st) continue;
      const auto layer = j.graph.params[j.plan.blocks[st->block].param].layer;
      const double says = st->mass;
      const double m = mass_of(s.self, layer, j);
      must(std::abs(says - m) < 1e-12,
           [&] { return j.plan[s.self].name + " reports mass " + std::to_string(says) + ", but has " + std::to_string(m); });
      if (st->round > 0) flushed_[{st->round, st->block}] += says;
    }
  }
  double& mass_of(role_id worker, std::uint32_t layer, const prepared_job& j) {
    return mass_.try_emplace({worker, layer}, 1.0 / static_cast<double>(j.plan.workers.size())).first->second;
  }
  void watch_share(const seen_event& s, const user& u, const prepared_job& j) {
    const auto [layer, mass, count] = unpack(u);
    auto& m = mass_of(s.self, layer, j);
    const auto near = [mass = mass](double x) { return std::abs(mass - x) < 1e-12; };
    auto& line = arrived_[{s.self, layer}];
    if (count > 0 && !line.empty() && mass == line.front()) {
      line.erase(line.begin());
      ++passed_on;
      return;
    }
    const auto workers = static_cast<double>(j.plan.workers.size());
    auto& whole = wholes_.try_emplace({s.self, layer, count}, m).first->second;
    const bool all = count > 0 && near(m), part = count > 0 && near(whole / workers);
    must(count == 0 ? near(m / 2) : all || part, [&, layer = layer, sent = mass] {
      return j.plan[s.self].name + " sends mass " + std::to_string(sent) + " of layer " + std::to_string(layer) + ", but has " +
             std::to_string(m);
    });
    given_away += all ? 1 : 0;
    parted += part && !all ? 1 : 0;
    m = all ? 0 : m - mass;
    under_way_[layer] += mass;
  }
  void begin_merge(const seen_event& s, std::uint64_t token) {
    for (auto& [k, line] : arrived_) {
      if (k.first != s.self || line.empty() || busy(k)) continue;
      merging_[{s.self, token}] = {k.second, line.front()};
      line.erase(line.begin());
      return;
    }
    must(false, [] { return "a merge without a received share"; });
  }
  bool busy(const key& k) const {
    for (const auto& [at, what] : merging_)
      if (at.first == k.first && what.first == k.second) return true;
    return false;
  }
  void close(const prepared_job&) override {
    for (const auto& [at, sum] : flushed_)
      must(std::abs(sum - 1) < 1e-9, [at = at, sum = sum] {
        return "masses of block " + std::to_string(at.second) + " sum to " + std::to_string(sum) + " in round " +
               std::to_string(at.first);
      });
  }
  struct share_of {
    std::uint32_t layer;
    double mass;
    std::uint32_t count;
  };
  static share_of unpack(const user& u) {
    share_of p{};
    std::memcpy(&p.layer, u.bytes.data(), 4);
    std::memcpy(&p.mass, u.bytes.data() + 4, 8);
    std::memcpy(&p.count, u.bytes.data() + 12, 4);
    return p;
  }
  std::map<key, double> mass_;
  std::map<std::uint32_t, double> under_way_;  // by layer
  std::map<key, std::vector<double>> arrived_;
  std::map<std::pair<role_id, std::uint64_t>, std::pair<std::uint32_t, double>> merging_;  // by worker, token: layer, mass
  std::set<std::tuple<role_id, role_id, std::uint32_t, std::uint64_t, std::uint32_t>> different_;
  std::map<std::pair<std::uint64_t, std::uint32_t>, double> flushed_;           // by round, block
  std::map<std::tuple<role_id, std::uint32_t, std::uint32_t>, double> wholes_;  // by worker, layer, count: its mass before
  std::map<role_id, std::uint64_t> steps_;
};

// --- jobs

inline mode_shape downpour_tally(std::uint64_t seed) {
  auto s = draw_shape(seed, {.mode = "downpour", .net = "tally"});
  s.packets = s.workers;  // one per worker: the mean over a worker's packets is its gradient
  s.groups = s.workers;
  s.lr = -1;
  s.options = {{"n_push", std::to_string(1 + seed % 4)}, {"n_fetch", std::to_string(1 + seed / 4 % 4)}};
  return s;
}

}  // namespace troupe::testing
