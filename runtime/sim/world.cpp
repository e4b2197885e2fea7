#include "runtime/sim/world.hpp"

#include <algorithm>
#include <utility>

namespace troupe::sim {
namespace {

constexpr auto later = [](const auto& a, const auto& b) { return a > b; };

}  // namespace

void world::add(role_id id, std::uint32_t node, std::unique_ptr<role> r) {
  if (index_of(id) >= roles_.size()) roles_.resize(index_of(id) + 1);
  roles_[index_of(id)] = std::make_unique<hosted>();
  roles_[index_of(id)]->value = std::move(r);
  roles_[index_of(id)]->node = node;
}

role* world::find(role_id id) {
  return index_of(id) < roles_.size() && roles_[index_of(id)] ? roles_[index_of(id)]->value.get() : nullptr;
}

void world::schedule(time_point at, envelope e, std::uint64_t generation) {
  queue_.push_back({at, order_++, std::move(e), generation});
  std::push_heap(queue_.begin(), queue_.end(), later);
}

void world::inject(envelope e) { schedule(now_, std::move(e)); }

bool world::run(std::uint64_t limit, const std::function<bool()>& stop) {
  for (std::uint64_t n = 0; n < limit; ++n) {
    if (stop && stop()) return true;
    if (!step()) return true;
  }
  return false;
}

bool world::step() {
  if (queue_.empty()) return false;
  std::pop_heap(queue_.begin(), queue_.end(), later);
  auto ev = std::move(queue_.back());
  queue_.pop_back();
  now_ = ev.at;
  ++events_;
  const auto id = ev.e.h.dst;
  if (index_of(id) >= roles_.size() || !roles_[index_of(id)] || roles_[index_of(id)]->stopped) return true;
  auto& h = *roles_[index_of(id)];
  if (const auto* t = std::get_if<timer_fired>(&ev.e.body)) {
    auto at = h.timers.find(t->timer);
    if (at == h.timers.end() || at->second != ev.generation) return true;  // cancelled or set again
    h.timers.erase(at);
  }
  note(ev.e);
  if (on_deliver) on_deliver(ev.e, now_);
  effects_.clear();
  h.value->on(ev.e, now_, effects_);
  take_effects(id, h);
  return true;
}

// FNV-1a over what a delivery is: when, what, from whom, to whom, for which packet.
void world::note(const envelope& e) {
  const std::uint64_t words[] = {static_cast<std::uint64_t>(now_.count()), e.body.index(), index_of(e.h.src), index_of(e.h.dst),
                                 static_cast<std::uint64_t>(e.h.id),       e.h.step,       e.h.version,       e.h.packet};
  for (auto w : words)
    for (int i = 0; i < 8; ++i) trace_ = (trace_ ^ ((w >> (8 * i)) & 0xff)) * 0x100000001b3ull;
}

void world::take_effects(role_id self, hosted& h) {
  auto list = std::move(effects_.list());
  for (auto& e : list) {
    std::visit(overloaded{
                   [&](send_effect& s) { send(h, std::move(s.e)); },
                   [&](run_effect& r) { run_job(self, h, std::move(r)); },
                   [&](timer_effect& t) {
                     const auto g = ++generations_;
                     h.timers[t.timer] = g;
                     envelope fired;
                     fired.h.src = fired.h.dst = self;
                     fired.body = timer_fired{t.timer};
                     schedule(now_ + t.after, std::move(fired), g);
                   },
                   [&](cancel_effect& c) { h.timers.erase(c.timer); },
                   [&](event_effect& ev) {
                     if (on_event) on_event(ev);
                   },
                   [&](store_effect& s) {
                     if (on_store) on_store(s);
                   },
                   [&](shared_effect&) {},
                   [&](stop_effect&) { h.stopped = true; },
               },
               e);
  }
  list.clear();
  effects_.list() = std::move(list);  // keep its memory
}

void world::send(hosted& from, envelope e) {
  freeze(e);
  const auto dst = index_of(e.h.dst);
  if (dst >= roles_.size() || !roles_[dst]) return;
  auto& to = *roles_[dst];
  const int n = copies ? copies(e, random_) : 1;
  for (int i = 1; i < n; ++i) {
    auto again = e;
    again.h.attempt = static_cast<std::uint8_t>(i);
    transmit(from, to, std::move(again));
  }
  if (n > 0) transmit(from, to, std::move(e));
}

void world::transmit(const hosted& from, hosted& to, envelope e) {
  const auto& n = config_.network;
  const bool local = from.node == to.node;
  auto wait = n.local;
  if (!local || n.shuffle_local) {
    const auto spread = static_cast<std::uint64_t>((n.most - n.least).count());
    wait = n.least + duration(static_cast<std::int64_t>(random_.below(spread + 1)));
  }
  if (!local) {
    const auto bytes = tensor_bytes(e.body);
    if (n.bytes_per_second > 0) wait += duration(static_cast<std::int64_t>(1e9 * static_cast<double>(bytes) / n.bytes_per_second));
    auto& link = links_[{from.node, to.node}];
    ++link.messages;
    link.bytes += bytes + sizeof(header);
  }
  // A copy may come at any time; the message itself keeps the order of its pair (equal times keep it by the queue's order of entry).
  if (e.h.attempt > 0) return schedule(now_ + 3 * wait, std::move(e));
  auto& last = to.last_from[index_of(e.h.src)];
  last = std::max(last, now_ + wait);
  schedule(last, std::move(e));
}

void world::run_job(role_id self, hosted& h, run_effect r) {
  if (config_.dev && r.work) {
    job_context c{*config_.dev};
    r.work(c);
  }
  const auto& m = config_.compute;
  const auto cost =
      m.floor + duration(static_cast<std::int64_t>(1e9 * (r.cost.flops / m.flops_per_second + r.cost.bytes / m.bytes_per_second)));
  auto& cores = cores_[h.node];
  if (cores.empty()) cores.assign(m.cores, time_point{});
  auto& core = *std::min_element(cores.begin(), cores.end());
  core = std::max(core, now_) + cost;
  envelope done;
  done.h.src = done.h.dst = self;
  done.body = finished{r.token};
  // A role's jobs finish in the order they were started: what one slot computes may be read by its next job.
  auto& last = h.last_from[index_of(self)];
  last = std::max(last, core);
  schedule(last, std::move(done));
}

}  // namespace troupe::sim
