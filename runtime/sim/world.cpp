#include "runtime/sim/world.hpp"

#include <algorithm>

#include "ops/device.hpp"
#include "runtime/messages/crossing.hpp"

namespace troupe::sim {

world::world(world_config c)
    : config_(std::move(c)),
      random_(config_.seed),
      faults_(config_.faults, config_.seed),
      processors_(config_.compute, config_.seed),
      unreliable_(faults_.unreliable()) {}

void world::add(role_id id, std::uint32_t node, std::unique_ptr<role> r, std::uint32_t on) {
  if (index_of(id) >= roles_.size()) roles_.resize(index_of(id) + 1);
  auto& h = roles_[index_of(id)];
  h = hosted{};
  h.value = std::move(r);
  h.node = node;
  h.dev = on < config_.devices.size() ? config_.devices[on] : config_.dev;
  h.there = true;
  if (node >= nodes_.size()) nodes_.resize(node + 1);
}

role* world::find(role_id id) {
  auto* h = at_home(id);
  return h ? h->value.get() : nullptr;
}

world::slot world::fill(record*& r, kind what, std::uint32_t from, std::uint32_t to) {
  const auto s = queue_.take();
  r = &queue_[s];
  r->what = what;
  r->hop = 0;
  r->from = from;
  r->to = to;
  r->from_life = from < nodes_.size() ? nodes_[from].life : 0;
  r->to_life = to < nodes_.size() ? nodes_[to].life : 0;
  r->number = 0;
  r->bytes = 0;
  r->sent = now_;
  r->longer = {};
  return s;
}

void world::inject(envelope e) {
  const auto* to = at_home(e.h.dst);
  if (!to) return;
  record* r = nullptr;
  const auto s = fill(r, kind::deliver, to->node, to->node);
  r->e = std::move(e);
  queue_.push(now_, s);
}

void world::at(time_point when, std::function<void()> what) {
  record* r = nullptr;
  const auto s = fill(r, kind::call, 0, 0);
  r->number = calls_.size();
  calls_.push_back(std::move(what));
  queue_.push(std::max(when, now_), s);
}

void world::begin() {
  begun_ = true;
  fabric_ = fabric(config_.network, static_cast<std::uint32_t>(nodes_.size()));
  plan_crashes();
}

bool world::run(std::uint64_t limit, const std::function<bool()>& stop) {
  for (std::uint64_t n = 0; n < limit; ++n) {
    if (stop && stop()) return true;
    if (!step()) return true;
  }
  return false;
}

bool world::step() {
  if (!begun_) begin();
  if (queue_.empty()) return false;
  const auto [at, s] = queue_.pop();
  now_ = at;
  ++events_;
  auto& r = queue_[s];
  if (r.what == kind::deliver && std::holds_alternative<finished>(r.e.body)) wait_for_task(r.number);
  if (r.what == kind::call) {
    const auto call = std::move(calls_[r.number]);
    queue_.give_back(s);
    call();
    return true;
  }
  if (r.what == kind::resend) {
    const auto index = r.lane;
    queue_.give_back(s);
    resend(index);
    return true;
  }
  if (void_now(r)) {
    r.e.body = finished{};
    queue_.give_back(s);
    return true;
  }
  if (r.hop > 0 && r.hop < lanes_[r.lane].way.count) {
    pass(s, r);
    return true;
  }
  if (r.what == kind::shared) {
    go_on_shared(s, r);
    return true;
  }
  switch (r.what) {
    case kind::deliver: deliver(r); break;
    case kind::frame: take_frame(r); break;
    case kind::acknowledgement: take_acknowledgement(r); break;
    default: break;
  }
  r.e.body = finished{};  // drops its tensors
  queue_.give_back(s);
  return true;
}

// The role reacts; its effects take place while the record is still ours.
void world::deliver(record& r) {
  auto* h = at_home(r.e.h.dst);
  if (!h) ++counts_.lost_in_crash;
  if (!h || h->stopped) return;
  if (of_past_life(r.e)) return void(++counts_.stale);
  if (const auto* t = std::get_if<timer_fired>(&r.e.body); t && r.e.h.src == r.e.h.dst) {
    const auto at = std::find(h->timers.begin(), h->timers.end(), std::pair(t->timer, r.number));
    if (at == h->timers.end()) return;  // cancelled or set again
    h->timers.erase(at);
  }
  if (on_wire && r.from != r.to) on_wire(r.e, r.sent, now_);
  if (r.e.h.trace > 0) deliver_again(r);
  note(r.e);
  ++deliveries_;
  if (on_deliver) on_deliver(r.e, now_);
  effects_.clear();
  const auto self = r.e.h.dst;
  inside_ = true;
  h->value->on(r.e, now_, effects_);
  r.e.body = finished{};  // what it brought is the role's alone, as in the shell
  take_effects(self);
  inside_ = false;
}

// What a delivery is: when, what, from whom, to whom, for which packet.
void world::note(const envelope& e) {
  const auto both = [](std::uint64_t high, std::uint64_t low) { return high << 32 | (low & 0xffffffff); };
  trace_.add({static_cast<std::uint64_t>(now_.count()), both(e.h.incarnation, e.body.index()), index_of(e.h.src), index_of(e.h.dst),
              static_cast<std::uint64_t>(e.h.id), e.h.step, e.h.version, both(e.h.clock, e.h.packet)});
}

void world::schedule_local(time_point when, role_id self, message body, std::uint64_t number) {
  const auto node = roles_[index_of(self)].node;
  record* r = nullptr;
  const auto s = fill(r, kind::deliver, node, node);
  r->e.h = {};
  r->e.h.src = r->e.h.dst = self;
  r->e.h.incarnation = roles_[index_of(self)].incarnation;
  r->e.body = std::move(body);
  r->number = number;
  queue_.push(when, s);
}

void world::take_effects(role_id self) {
  for (auto& effect : effects_.list()) {
    auto& h = roles_[index_of(self)];
    std::visit(overloaded{
                   [&](send_effect& s) { send(self, std::move(s.e)); },
                   [&](run_effect& r) { run_job(self, r); },
                   [&](timer_effect& t) {
                     std::erase_if(h.timers, [&](const auto& set) { return set.first == t.timer; });
                     h.timers.emplace_back(t.timer, ++generations_);
                     schedule_local(now_ + t.after, self, timer_fired{t.timer}, generations_);
                   },
                   [&](cancel_effect& c) { std::erase_if(h.timers, [&](const auto& set) { return set.first == c.timer; }); },
                   [&](event_effect& ev) {
                     if (on_event) on_event(ev);
                   },
                   [&](store_effect& s) {
                     if (on_store) on_store(s);
                   },
                   [&](shared_effect& x) { begin_shared(self, x); },
                   [&](stop_effect&) { h.stopped = true; },
               },
               effect);
  }
  effects_.clear();
}

device& world::lane_of(hosted& h, std::uint32_t solver) {
  if (solver >= h.lanes.size()) h.lanes.resize(solver + 1);
  auto& own = h.lanes[solver];
  if (!own) own = h.dev->make_lane();
  return own ? *own : *h.dev;
}

device& world::leaving_lane_of(hosted& h) {
  if (!h.leaving) h.leaving = h.dev->make_lane();
  return h.leaving ? *h.leaving : *h.dev;
}

void world::run_job(role_id self, run_effect& r) {
  auto& h = roles_[index_of(self)];
  const auto number =
      config_.dev && r.work ? begin_task(std::uint64_t{index_of(self)} << 32 | r.slot, lane_of(h, r.slot), std::move(r.work)) : 0;
  std::optional<duration> known;
  if (measured) known = measured(self, r.cost);
  auto time = processors_.drawn(h.node, known ? *known : processors_.time_of(r.cost), counts_);
  if (faults_.any())
    if (const double f = faults_.slowness(h.node, now_, counts_); f != 1)
      time = duration(static_cast<std::int64_t>(static_cast<double>(time.count()) * f));
  const auto turn = processors_.run(h.node, time, now_);
  if (on_span) on_span(self, r.cost.kind, turn.begin, turn.end);
  // A role's jobs finish in the order they were started: what one slot computes may be read by its next job.
  h.last_job = std::max(h.last_job, turn.end);
  schedule_local(h.last_job, self, finished{r.token}, number);
}

// 0: it has run.
std::uint64_t world::begin_task(std::uint64_t seat, device& dev, job_work work) {
  auto run = [&dev, work = std::move(work)] {
    job_context c{dev};
    dev.begin_task();
    work(c);
    if (!dev.end_task()) dev.wait_over();
  };
  if (!config_.elsewhere) return run(), 0;
  tasks_.emplace(++tasks_begun_, config_.elsewhere(seat, std::move(run)));
  return tasks_begun_;
}

void world::wait_for_task(std::uint64_t number) {
  const auto at = tasks_.find(number);
  if (at == tasks_.end()) return;
  const auto wait = std::move(at->second);
  tasks_.erase(at);
  wait();
}

world::~world() {
  while (!tasks_.empty()) wait_for_task(tasks_.begin()->first);
}

// Takes a core as a job does; its moments (param_store.hpp) are events, so that two of one node interleave.
void world::begin_shared(role_id self, shared_effect& e) {
  auto& h = roles_[index_of(self)];
  auto& store = nodes_[h.node].shared;
  if (!store) store = std::make_unique<param_store>();
  const bool adds = e.kind == shared_effect::kind_of::add;
  if (config_.dev && e.kind != shared_effect::kind_of::read) bring_home(*e.value, leaving_lane_of(h));
  const job_cost cost{0, static_cast<double>(e.value->bytes()) * (adds ? 3 : 2), adds ? "add" : "copy"};
  auto turn = processors_.run(h.node, processors_.drawn(h.node, processors_.time_of(cost), counts_), now_);
  // One role's follow each other: it reads what it has added before.
  const auto late = std::max(duration{}, h.last_shared - turn.begin);
  turn.begin += late, turn.end += late;
  h.last_shared = turn.end;
  if (on_span) on_span(self, cost.kind, turn.begin, turn.end);
  record* r = nullptr;
  const auto s = fill(r, kind::shared, h.node, h.node);
  r->number = store->begin(static_cast<param_store::kind>(e.kind), e.block, std::move(e.value));
  r->bytes = store->moments(static_cast<std::uint32_t>(r->number)) - 1;  // steps from the first moment to the last
  r->attempt = 0;
  r->sent = turn.begin;
  r->tail = std::max(turn.begin, turn.end - duration(1));  // over before what begins at its end
  r->e.h = {};
  r->e.h.src = r->e.h.dst = self;
  r->e.h.incarnation = h.incarnation;
  r->e.h.step = e.token;
  queue_.push(turn.begin, s);
}

void world::go_on_shared(slot s, record& r) {
  auto* host = config_.dev ? &config_.dev->host() : nullptr;  // what has no mailbox has no device's queues either
  if (!nodes_[r.to].shared->advance(static_cast<std::uint32_t>(r.number), host)) {
    ++r.attempt;
    return queue_.push(r.sent + (r.tail - r.sent) * r.attempt / static_cast<std::int64_t>(r.bytes), s);
  }
  const auto self = r.e.h.src;
  const auto life = r.e.h.incarnation;
  r.e.body = finished{r.e.h.step};
  r.e.h = {};
  r.e.h.src = r.e.h.dst = self;
  r.e.h.incarnation = life;
  r.number = 0;
  deliver(r);
  queue_.give_back(s);
}

std::map<std::pair<std::uint32_t, std::uint32_t>, world::traffic> world::links() const {
  std::map<std::pair<std::uint32_t, std::uint32_t>, traffic> all;
  for (const auto& l : lanes_)
    if (l.sum.messages > 0) all[{l.from, l.to}] = l.sum;
  return all;
}

const fault_counts& world::counts() const {
  counts_.resent = retired_resent_;
  counts_.wire_duplicates = retired_duplicates_;
  counts_.held = retired_held_;
  counts_.lost_updates = retired_lost_updates_;
  for (const auto& n : nodes_)
    if (n.shared) counts_.lost_updates += n.shared->lost();
  for (const auto& l : lanes_) {
    if (l.sender) counts_.resent += l.sender->resent();
    if (!l.receiver) continue;
    counts_.wire_duplicates += l.receiver->duplicates();
    counts_.held += l.receiver->held();
  }
  return counts_;
}

}  // namespace troupe::sim
