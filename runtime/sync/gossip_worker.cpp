// The worker sync of mode `gossip` (gossip.cpp): halves and sends masses, merges the shares that
// arrive, and at the boundary gives its mass to workers that still train.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <deque>
#include <limits>
#include <set>

#include "ops/device.hpp"
#include "runtime/messages/fits.hpp"
#include "runtime/sync/gossip.hpp"
#include "runtime/sync/local.hpp"

namespace troupe {
namespace {

constexpr double least_mass = std::numeric_limits<double>::min();  // no share has a smaller mass; smallest normal number

std::string packed(std::uint32_t layer, double mass, std::uint32_t count) {
  std::string s(16, '\0');
  std::memcpy(s.data(), &layer, 4);
  std::memcpy(s.data() + 4, &mass, 8);
  std::memcpy(s.data() + 12, &count, 4);
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
  explicit gossip_worker(sync_config c)
      : local_worker(std::move(c)),
        every_(static_cast<std::uint64_t>(config_.mode.integer("every"))),
        mass_(layers_.size(), 1.0 / workers()),
        arrived_(layers_.size()),
        waiting_(layers_.size(), 0),
        owed_(layers_.size()),
        peers_(config_.plan->workers.size()) {
    for (auto& p : peers_) p.last.resize(layers_.size());
  }

 private:
  struct arrival {
    double mass;
    tensors values;
  };
  struct copy_request {  // want_copy
    role_id from = no_role;
    std::uint64_t number = 0;
  };
  // This worker's knowledge of another one.
  struct peer {
    std::uint64_t rested = 0;                                   // the last boundary at which it announced `rests`
    std::vector<std::pair<std::uint64_t, std::uint32_t>> last;  // by layer: step and count of its latest share
  };

  std::uint32_t workers() const { return static_cast<std::uint32_t>(config_.plan->workers.size()); }

  // --- sending

  void on_stepped(std::uint32_t layer, std::uint64_t step, effects& out) override { ask_due(layer, step + 1, every_, out); }

  void on_due(std::uint32_t layer, std::uint64_t done, bool due, effects& out) override {
    // A running merge began with the present mass and weights, so sending them now would count them
    // twice. The share is sent when the merge is complete.
    if (due && busy_[layer]) {
      waiting_[layer] = done;
      return;
    }
    if (due && done != boundary_ && mass_[layer] / 2 >= least_mass)
      if (const auto other = drawn(done, 0)) {
        mass_[layer] /= 2;
        send_share(*other, layer, {done, 0}, {mass_[layer], values_of(layer)}, out);
      }
    if (due) exchanged(layer);
    go_on(layer, done, out);
    rest(out);
  }

  // Draws a worker that is not known to be idle, for a share sent after `done` steps; `count` is
  // its number among the shares of the boundary (0: before the boundary). Nullopt if all others are
  // idle.
  std::optional<std::uint32_t> drawn(std::uint64_t done, std::uint32_t count) const {
    std::vector<std::uint32_t> awake;
    for (std::uint32_t k = 1; k < workers(); ++k)
      if (const auto w = (config_.worker + k) % workers(); peers_[w].rested < done) awake.push_back(w);
    if (awake.empty()) return std::nullopt;
    auto draw = mixed(mixed(config_.seed * 0x9e37 + config_.worker) + done);
    if (count > 0) draw = mixed(draw + count);
    return awake[draw % awake.size()];
  }

  void send_share(std::uint32_t worker, std::uint32_t layer, std::pair<std::uint64_t, std::uint32_t> which, arrival a,
                  effects& out) const {
    auto h = to(config_.plan->workers[worker]);
    h.step = which.first;
    out.send({h, user{share, packed(layer, a.mass, which.second), std::move(a.values)}});
  }

  // --- idle at the boundary

  bool resting() const {
    return boundary_ > 0 && std::all_of(layers_.begin(), layers_.end(),
                                        [&](const auto& l) { return l.blocks.empty() || (l.begun && l.handed == boundary_); });
  }

  // The coordinator's notices of boundaries are numbered; the latest counts.
  void take_boundary(const header& h, const grant& g, effects& out) {
    if (h.src != config_.coordinator) return drop(drop_reason::misaddressed);
    if (g.notice <= notice_) return drop(drop_reason::outdated);
    notice_ = g.notice;
    const bool rested = resting();
    const auto before = std::exchange(boundary_, g.until);
    if (rested && boundary_ != before)
      part_equally(before, out);
    else
      rest(out);
  }

  void rest(effects& out) {
    if (!resting()) return;
    if (std::exchange(said_rest_, boundary_) != boundary_)
      for (std::uint32_t w = 0; w < workers(); ++w)
        if (w != config_.worker) say_rest(w, out);
    for (std::uint32_t l = 0; l < layers_.size(); ++l)
      if (!layers_[l].blocks.empty()) give_away(l, out);
  }

  void say_rest(std::uint32_t worker, effects& out) const {
    auto h = to(config_.plan->workers[worker]);
    h.step = boundary_;
    out.send({h, user{rests, {}, {}}});
  }

  // Forwards shares unchanged, then gives away the worker's own mass.
  void give_away(std::uint32_t layer, effects& out) {
    if (flushed_at_ == boundary_) return;  // all_said has been sent; no share may follow it
    while (!busy_[layer] && (!arrived_[layer].empty() || mass_[layer] > 0)) {
      const auto other = drawn(boundary_, passed_ + 1);
      if (!other) return;
      auto a = arrived_[layer].empty() ? arrival{std::exchange(mass_[layer], 0.0), values_of(layer)}
                                       : std::move(arrived_[layer].front());
      if (!arrived_[layer].empty()) arrived_[layer].pop_front();
      send_share(*other, layer, {boundary_, ++passed_}, std::move(a), out);
    }
  }

  // Training continues beyond the boundary. Workers that gave all their mass away have none to
  // train with, so each worker gives every other an equal part of its own.
  void part_equally(std::uint64_t boundary, effects& out) {
    ++passed_;
    for (std::uint32_t l = 0; l < layers_.size(); ++l) {
      const double part = mass_[l] / workers();
      if (layers_[l].blocks.empty() || busy_[l] || part < least_mass) continue;
      for (std::uint32_t w = 0; w < workers(); ++w) {
        if (w == config_.worker) continue;
        mass_[l] -= part;
        send_share(w, l, {boundary, passed_}, {part, values_of(l)}, out);
      }
    }
  }

  // --- received messages

  void on_other(const envelope& e, effects& out) override {
    if (const auto* g = std::get_if<grant>(&e.body)) return take_boundary(e.h, *g, out);
    const auto* u = std::get_if<user>(&e.body);
    if (!u) return drop(drop_reason::unexpected);
    if (u->type == want_copy) {
      const auto begun = [](const auto& l) { return l.blocks.empty() || l.begun; };
      const copy_request asked{e.h.src, u->number};
      return std::all_of(layers_.begin(), layers_.end(), begun) ? contribute_to(asked, out) : asked_.push_back(asked);
    }
    const auto& all = config_.plan->workers;
    const auto from = static_cast<std::uint32_t>(std::find(all.begin(), all.end(), e.h.src) - all.begin());
    if (from >= workers() || from == config_.worker) return drop(drop_reason::misaddressed);
    if (u->type == all_said)
      said_all_.insert({e.h.src, u->number});
    else if (u->type == rests)
      peers_[from].rested = std::max(peers_[from].rested, e.h.step);
    else if (u->type == share)
      take_share(from, e.h, *u, out);
    else
      drop(drop_reason::unexpected);
  }

  void take_share(std::uint32_t from, const header& h, const user& u, effects& out) {
    std::uint32_t layer = 0, count = 0;
    double mass = 0;
    if (u.bytes.size() != 16) return drop(drop_reason::malformed);
    std::memcpy(&layer, u.bytes.data(), 4);
    std::memcpy(&mass, u.bytes.data() + 4, 8);
    std::memcpy(&count, u.bytes.data() + 12, 4);
    const bool right = layer < layers_.size() && !layers_[layer].blocks.empty() && mass > 0 && std::isfinite(mass) &&
                       u.values.size() == layer_at(layer).params.size();
    if (!right) return drop(drop_reason::malformed);
    for (std::size_t i = 0; i < u.values.size(); ++i)
      if (!fits(u.values[i], config_.graph->params[layer_at(layer).params[i]].spec.dims, config_.type))
        return drop(drop_reason::malformed);
    auto& last = peers_[from].last[layer];
    if (std::pair(h.step, count) <= last) return drop(drop_reason::repeated);
    last = {h.step, count};
    arrived_[layer].push_back({mass, u.values});
    if (!busy_[layer] && layers_[layer].begun) on_idle(layer, out);
  }

  void on_begun(std::uint32_t layer, std::uint64_t step, effects& out) override {
    local_worker::on_begun(layer, step, out);
    on_idle(layer, out);
    if (std::all_of(layers_.begin(), layers_.end(), [](const auto& l) { return l.blocks.empty() || l.begun; }))
      for (const auto& asked : std::exchange(asked_, {})) contribute_to(asked, out);
  }

  // Merges the shares that have arrived, one at a time.
  void on_idle(std::uint32_t layer, effects& out) override {
    if (resting()) give_away(layer, out);
    if (arrived_[layer].empty()) return;
    auto a = std::move(arrived_[layer].front());
    arrived_[layer].pop_front();
    const double all = mass_[layer] + a.mass, mine = mass_[layer] / all, theirs = a.mass / all;
    auto next = std::make_shared<tensors>();
    task_cost cost{0, 0, "merge"};
    for (auto p : layer_at(layer).params) {
      next->push_back(tensor::declare(replicas_[p].value.dims(), config_.type));
      cost.bytes += 5.0 * static_cast<double>(next->back().bytes());
    }
    busy_[layer] = true;
    tasks_.run(
        [was = values_of(layer), next, mine, theirs, values = std::move(a.values), graph = config_.graph,
         params = layer_at(layer).params](task_context& c) {
          for (std::size_t i = 0; i < next->size(); ++i) {
            auto& t = (*next)[i];
            t.back(c.dev);
            c.dev.copy(was[i], t);
            if (graph->params[params[i]].frozen) continue;
            c.dev.scale(mine, t);
            c.dev.axpy(theirs, values[i], t);
          }
        },
        cost,
        [this, layer, next, all](effects& more) {
          for (std::size_t i = 0; i < next->size(); ++i) replicas_[layer_at(layer).params[i]].value = (*next)[i];
          mass_[layer] = all;
          last_merge_[layer] = layers_[layer].handed;
          busy_[layer] = false;
          if (const auto done = std::exchange(waiting_[layer], 0)) on_due(layer, done, true, more);
          release(layer, more);
        },
        out);
  }

  // --- flush and collections

  void on_settling(std::uint64_t step, effects& out) override {
    flushed_at_ = step;
    for (auto w : config_.plan->workers)
      if (w != config_.self) out.send({to(w), user{all_said, {}, {}, settling_}});
  }

  bool quiet() const override {
    const auto said = std::count_if(said_all_.begin(), said_all_.end(), [&](const auto& s) { return s.second == settling_; });
    const bool merged = std::all_of(arrived_.begin(), arrived_.end(), [](const auto& a) { return a.empty(); });
    return local_worker::quiet() && merged && static_cast<std::size_t>(said) + 1 == config_.plan->workers.size();
  }

  void on_flush(std::uint64_t, effects& out) override {
    said_all_.clear();
    for (std::uint32_t l = 0; l < layers_.size(); ++l)
      if (!layers_[l].blocks.empty()) contribute_layer(l, {}, out);
  }

  // Sends the requested copies. A layer that a task is changing follows when the task has finished,
  // because the task may change rule states in place.
  void contribute_to(const copy_request& asked, effects& out) {
    for (std::uint32_t l = 0; l < layers_.size(); ++l)
      if (layers_[l].begun && busy_[l])
        owed_[l].push_back(asked);
      else if (layers_[l].begun)
        contribute_layer(l, asked, out);
  }

  void on_free(std::uint32_t layer, effects& out) override {
    for (const auto& asked : std::exchange(owed_[layer], {})) contribute_layer(layer, asked, out);
  }

  // Sends this worker's copy of a layer, with its mass: the blocks of the shard that requests it,
  // or, without a request, all blocks for the present flush.
  void contribute_layer(std::uint32_t layer, const copy_request& asked, effects& out) {
    for (auto p : layer_at(layer).params)
      for (auto id : blocks_of(p)) {
        if (asked.from != no_role && shard_of(id) != asked.from) continue;
        auto s = copy_of(id, mass_[layer]);
        if (asked.from != no_role)
          s.request = asked.number;
        else
          s.round = settling_;
        out.send({to(shard_of(id)), std::move(s)});
      }
  }

  std::uint64_t every_;
  std::vector<double> mass_;                     // by layer
  std::vector<std::deque<arrival>> arrived_;     // by layer
  std::vector<std::uint64_t> waiting_;           // by layer: steps done when a share fell due during a merge; 0: none did
  std::vector<copy_request> asked_;              // want_copy messages received before the first weights
  std::vector<std::vector<copy_request>> owed_;  // by layer: want_copy messages received while a task changes it
  std::uint64_t flushed_at_ = ~0ull;             // the boundary for which all_said was sent
  std::vector<peer> peers_;                      // by worker
  std::uint64_t notice_ = 0, boundary_ = 0;      // the latest notice of a boundary: its number, and the step (0: none is near)
  std::uint64_t said_rest_ = 0;                  // the boundary at which this worker announced `rests`
  std::uint32_t passed_ = 0;                     // number of shares given away at boundaries
  std::set<std::pair<role_id, std::uint64_t>> said_all_;  // (worker, flush round) of received all_said
};

}  // namespace

std::unique_ptr<role> make_gossip_worker(sync_config c) { return std::make_unique<gossip_worker>(std::move(c)); }

}  // namespace troupe
