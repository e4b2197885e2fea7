// gossip: averaging without a centre (GoSGD: Blot, Picard, Cord, Thome 2016; the sums and weights of Kempe, Dobra, Gehrke 2003).
//
// Worker half. Every worker has weights w and, per layer, a mass m; all masses are 1/N at first. After every `every` steps it halves
// its mass and sends (w, m) to one other worker, drawn from (seed, worker, step). Who receives (w', m') takes
// w = (m w + m' w') / (m + m'), m = m + m'. Nobody waits for anybody.
//
// Shard half. Gives the first weights; else it is only asked for the mean: on a collection it asks all workers for their copies, and
// when training settles they send them.
//
// Messages every `every` steps, per worker: one per layer, to another worker. Bytes: the layer.
//
// Invariants:
//   * the masses, those under way included, sum to 1, and so the sum of m w changes by gradient steps only;
//   * a message is merged once: a second one of the same worker, layer and step is ignored;
//   * settling ends with nothing under way: each worker tells every other that it has said all.
#include <algorithm>
#include <bit>
#include <cstring>
#include <deque>
#include <set>

#include "ops/device.hpp"
#include "ops/option_specs.hpp"
#include "runtime/sync/local.hpp"
#include "runtime/sync/shard_half.hpp"
#include "runtime/sync/stock.hpp"

namespace troupe {
namespace {

// Types of `user` messages. `share` has (layer, mass) in its bytes; `all_said` nothing; `want_copy` asks a worker for what it has.
enum gossip_type : std::uint32_t { share = 1, all_said = 2, want_copy = 3 };

std::string packed(std::uint32_t layer, double mass) {
  std::string s(12, '\0');
  std::memcpy(s.data(), &layer, 4);
  std::memcpy(s.data() + 4, &mass, 8);
  return s;
}

std::uint64_t mixed(std::uint64_t x) {  // splitmix64
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

class gossip_worker final : public local_worker {
 public:
  explicit gossip_worker(half_config c)
      : local_worker(std::move(c)),
        every_(static_cast<std::uint64_t>(config_.mode.integer("every"))),
        mass_(layers_.size(), 1.0 / static_cast<double>(config_.plan->workers.size())),
        arrived_(layers_.size()),
        waiting_(layers_.size(), 0) {}

 private:
  struct arrival {
    double mass;
    tensors values;
  };

  void on_stepped(std::uint32_t layer, std::uint64_t step, effects& out) override { ask_due(layer, step + 1, every_, out); }

  void on_due(std::uint32_t layer, std::uint64_t done, bool due, effects& out) override {
    // A merge has begun with the mass and weights we had: what is sent now would be counted twice. It goes when the merge is over.
    if (due && busy_[layer]) {
      waiting_[layer] = done;
      return;
    }
    const auto n = static_cast<std::uint32_t>(config_.plan->workers.size());
    if (due && n > 1) {
      const auto draw = mixed(mixed(config_.seed * 0x9e37 + config_.worker) + done);
      const auto other = (config_.worker + 1 + static_cast<std::uint32_t>(draw % (n - 1))) % n;
      mass_[layer] /= 2;
      auto h = to(config_.plan->workers[other]);
      h.step = done;
      out.send({h, user{share, packed(layer, mass_[layer]), values_of(layer)}});
    }
    if (due) exchanged(layer);
    go_on(layer, done, out);
  }

  void on_other(const envelope& e, effects& out) override {
    const auto* u = std::get_if<user>(&e.body);
    if (!u) return void(++dropped_);
    if (u->type == want_copy) {
      const auto begun = [](const auto& l) { return l.blocks.empty() || l.begun; };
      std::all_of(layers_.begin(), layers_.end(), begun) ? contribute_to(e.h, out) : asked_.push_back(e.h);
    } else if (u->type == all_said) {
      const auto round = static_cast<std::uint64_t>(e.h.id);
      said_all_.insert({e.h.src, round});
      // One that has been restarted has not heard what we said to its former self.
      if (e.h.incarnation > 0 && e.h.clock == 0 && said_ == round) say_all(e.h.src, 1, out);
    } else if (u->type == share && u->bytes.size() == 12) {
      std::uint32_t layer = 0;
      double mass = 0;
      std::memcpy(&layer, u->bytes.data(), 4);
      std::memcpy(&mass, u->bytes.data() + 4, 8);
      if (layer >= layers_.size() || u->values.size() != layer_at(layer).params.size()) return void(++dropped_);
      auto& last = last_from_[{e.h.src, layer}];
      if (e.h.step <= last) return void(++dropped_);
      last = e.h.step;
      arrived_[layer].push_back({mass, u->values});
      if (!busy_[layer] && layers_[layer].begun) on_idle(layer, out);
    }
  }

  void on_begun(std::uint32_t layer, std::uint64_t step, effects& out) override {
    local_worker::on_begun(layer, step, out);
    on_idle(layer, out);
    if (std::all_of(layers_.begin(), layers_.end(), [](const auto& l) { return l.blocks.empty() || l.begun; }))
      for (const auto& h : std::exchange(asked_, {})) contribute_to(h, out);
  }

  // Merges what has arrived, one message after the other.
  void on_idle(std::uint32_t layer, effects& out) override {
    if (arrived_[layer].empty()) return;
    auto a = std::move(arrived_[layer].front());
    arrived_[layer].pop_front();
    const double all = mass_[layer] + a.mass, mine = mass_[layer] / all, theirs = a.mass / all;
    auto next = std::make_shared<tensors>();
    job_cost cost{0, 0, "merge"};
    for (auto p : layer_at(layer).params) {
      next->push_back(tensor::declare(replicas_[p].value.dims(), config_.type));
      cost.bytes += 5.0 * static_cast<double>(next->back().bytes());
    }
    busy_[layer] = true;
    jobs_.run(
        [this, layer, next, mine, theirs, values = std::move(a.values)](job_context& c) {
          for (std::size_t i = 0; i < next->size(); ++i) {
            auto& t = (*next)[i];
            t.back(c.dev);
            c.dev.copy(replicas_[layer_at(layer).params[i]].value, t);
            c.dev.scale(mine, t);
            c.dev.axpy(theirs, values[i], t);
          }
        },
        cost,
        [this, layer, next, all](effects& more) {
          for (std::size_t i = 0; i < next->size(); ++i) replicas_[layer_at(layer).params[i]].value = (*next)[i];
          mass_[layer] = all;
          heard_[layer] = layers_[layer].handed;
          busy_[layer] = false;
          if (const auto done = std::exchange(waiting_[layer], 0)) on_due(layer, done, true, more);
          release(layer, more);
        },
        out);
  }

  void on_settling(std::uint64_t, effects& out) override {
    said_ = settling_;
    for (auto w : config_.plan->workers)
      if (w != config_.self) say_all(w, 0, out);
  }

  // `answer` 1: to somebody who asked by saying it; needs none.
  void say_all(role_id w, std::uint32_t answer, effects& out) const {
    auto h = to(w);
    h.id = msg_id{settling_};
    h.clock = answer;
    out.send({h, user{all_said, {}, {}}});
  }

  bool quiet() const override {
    const auto said = std::count_if(said_all_.begin(), said_all_.end(), [&](const auto& s) { return s.second == settling_; });
    const bool merged = std::all_of(arrived_.begin(), arrived_.end(), [](const auto& a) { return a.empty(); });
    return local_worker::quiet() && merged && static_cast<std::size_t>(said) + 1 == config_.plan->workers.size();
  }

  void on_settle(std::uint64_t, effects& out) override {
    said_all_.clear();
    for (std::uint32_t l = 0; l < layers_.size(); ++l)
      if (!layers_[l].blocks.empty()) contribute_layer(l, no_role, settling_, out);
  }

  void contribute_to(const header& asked, effects& out) {
    for (std::uint32_t l = 0; l < layers_.size(); ++l)
      if (layers_[l].begun) contribute_layer(l, asked.src, static_cast<std::uint64_t>(asked.id), out);
  }

  // Our copy of a layer to its shards (or those blocks of it that `asker` has), with its mass.
  void contribute_layer(std::uint32_t layer, role_id asker, std::uint64_t round, effects& out) {
    for (auto p : layer_at(layer).params)
      for (auto id : blocks_of(p)) {
        if (asker != no_role && shard_of(id) != asker) continue;
        const auto& b = block_at(id);
        auto h = to(shard_of(id));
        h.id = msg_id{round};
        h.flags = asker != no_role ? flag_join : std::uint16_t{0};
        h.version = std::bit_cast<std::uint64_t>(mass_[layer]);
        state s{replicas_[p].updates, id, replicas_[p].value.slice(b.begin, {b.count}), {}};
        for (const auto& t : replicas_[p].rule) s.rule.push_back(t.slice(b.begin, {b.count}));
        out.send({h, std::move(s)});
      }
  }

  std::uint64_t every_;
  std::vector<double> mass_;                  // by layer
  std::vector<std::deque<arrival>> arrived_;  // by layer
  std::vector<std::uint64_t> waiting_;        // by layer: steps done when it wanted to send, 0: it does not
  std::vector<header> asked_;                 // for copies, before we had any
  std::uint64_t said_ = 0;                    // the round of settling in which we have said all
  std::map<std::pair<role_id, std::uint32_t>, std::uint64_t> last_from_;
  std::set<std::pair<role_id, std::uint64_t>> said_all_;  // by worker, round of settling
};

class gossip_shard final : public shard_half {
 public:
  explicit gossip_shard(half_config c) : shard_half(std::move(c), gives::state) {}

 private:
  void on_push(const header&, const push&, shard_block&, effects&) override { ++dropped_; }
  std::uint64_t wanted_from(std::uint32_t, const shard_block&) const override { return config_.first_step; }
  void on_all_settled(std::uint64_t, effects& out) override { fold_contributions(true, true, out); }

  void on_rejoined(std::uint32_t worker, effects& out) override {
    if (blocks_.hold_collects) ask(config_.plan->workers[worker], out);
  }
  void ask(role_id worker, effects& out) const {
    auto h = to(worker);
    h.id = msg_id{round_};
    out.send({h, user{want_copy, {}, {}}});
  }

  // Asks the workers, and answers with the mean of what they have at this moment.
  void before_collect(effects& out) override {
    if (blocks_.hold_collects) return;
    blocks_.hold_collects = true;
    ++round_;
    copies_.clear();
    for (auto w : config_.plan->workers) ask(w, out);
  }

  bool on_copy(const header& h, const state& s, effects& out) override {
    if (!(h.flags & flag_join)) return false;
    if (!blocks_.hold_collects || static_cast<std::uint64_t>(h.id) != round_) return true;
    copies_[s.block][worker_of(h.src)] = {std::bit_cast<double>(h.version), s};
    for (const auto& b : blocks_.list())
      if (copies_[b.plan->id].size() < workers()) return true;
    fold(copies_, true, true, out);
    jobs_.run([](job_context&) {}, {0, 0, "mean"},
              [this](effects& more) {
                blocks_.hold_collects = false;
                blocks_.answer_collects(more);
              },
              out);
    copies_.clear();
    return true;
  }

  std::uint64_t round_ = 0;
  contributions copies_;
};

}  // namespace

sync_mode gossip_mode() {
  return {.name = "gossip",
          .doc =
              "No centre: every `every` steps a worker sends its weights and half its mass to another, which averages. Blot et al. "
              "2016.",
          .specs = {integer_option("every", 1, "steps between two messages of a worker", 1)},
          .takes_when = true,
          .sends_layers = true,
          .check = [](const options&, const job_spec&, const job_plan& p) { one_centre(p, "gossip"); },
          .make_worker = [](half_config c) { return std::make_unique<gossip_worker>(std::move(c)); },
          .make_shard = [](half_config c) { return std::make_unique<gossip_shard>(std::move(c)); }};
}

}  // namespace troupe
