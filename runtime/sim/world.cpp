#include "runtime/sim/world.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>

#include "ops/stream_by_rules.hpp"
#include "runtime/messages/crossing.hpp"

namespace troupe::sim {

world::world(world_config c)
    : config_(std::move(c)),
      random_(config_.seed),
      faults_(config_.faults, config_.seed),
      processors_(config_.compute, config_.seed),
      plans_(1),
      nodes_(config_.nodes) {}

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
  r->arrived = r->again = false;
  r->plan = 0;
  r->session = 0;
  return s;
}

void world::give_back(slot s, record& r) {
  r.e.body = finished{};  // drops its tensors
  queue_.give_back(s);
}

void world::inject(envelope e) {
  const auto* to = at_home(e.h.dst);
  if (!to) return;
  record* r = nullptr;
  const auto s = fill(r, kind::deliver, to->node, to->node);
  r->e = std::move(e);
  queue_.push(now_, s);
}

void world::at(time_point when, work what) {
  slot index = 0;
  if (free_calls_.empty()) {
    if (calls_.size() == first_call) throw std::length_error("the simulation has too many calls in its queue");
    index = static_cast<slot>(calls_.size());
    calls_.emplace_back();
  } else {
    index = free_calls_.back();
    free_calls_.pop_back();
  }
  calls_[index] = std::move(what);
  queue_.push(std::max(when, now_), first_call + index);
}

void world::begin() {
  begun_ = true;
  const auto resend = faults_.unreliable() ? std::optional(config_.faults.resend) : std::nullopt;
  routes_ = route_table(config_.network, static_cast<std::uint32_t>(nodes_.size()), resend);
  for (std::uint32_t n = 0; n < nodes_.size() && faults_.any(); ++n) nodes_[n].clock = faults_.clock_of(n);
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
  ++report_.events;
  if (s >= first_call) {
    const auto call = std::exchange(calls_[s - first_call], nullptr);
    free_calls_.push_back(s - first_call);
    call();
    return true;
  }
  auto& r = queue_[s];
  if (r.what == kind::deliver && std::holds_alternative<finished>(r.e.body)) wait_for_task(r);
  if (r.what == kind::resend) {
    const auto index = r.route;
    queue_.give_back(s);
    resend(index);
    return true;
  }
  if (void_now(r)) {
    give_back(s, r);
    return true;
  }
  if (r.hop > 0 && r.hop < routes_[r.route].way.count) {
    pass(s, r);
    return true;
  }
  handle(s, r);
  return true;
}

// The event is at its node.
void world::handle(slot s, record& r) {
  switch (r.what) {
    case kind::shared:
      if (!put_aside(s, r)) go_on_shared(s, r);
      return;
    case kind::deliver:
      if (lost_on_the_way(r)) break;
      if (put_aside(s, r)) return;
      deliver(r);
      break;
    case kind::frame: take_frame(r); break;
    case kind::acknowledgement: take_acknowledgement(r); break;
    default: break;
  }
  give_back(s, r);
}

// The role handles the message. Its effects are carried out before the record is released.
void world::deliver(record& r) {
  const spawned* in = r.session != 0 ? receiver_of(r) : nullptr;
  if (r.session != 0 && !in) return;
  auto* h = in ? at_home(r.to, in->plan, r.e.h.dst) : at_home(r.e.h.dst);
  if (!h) ++report_.counts.lost_in_crash;
  if (!h || h->stopped || h->failed) return;
  if (on_wire && r.from != r.to) on_wire(r.e, r.sent, now_);
  if (r.e.h.trace > 0) deliver_again(r);
  report_.delivered(r.e, now_);
  if (on_deliver) on_deliver(r.e, now_);
  ++h->messages;
  if (in)
    act_in_plan(*h, *in, r);
  else
    act(*h, 0, r, read_clock(h->node), false);
}

// `keeps`: the message's tensors are not released.
void world::act(hosted& h, std::uint32_t plan, record& r, time_point time, bool keeps) {
  buffers_.wanted.clear();
  const auto self = r.e.h.dst;
  inside_ = true;
  h.value->on(r.e, time, buffers_.wanted);
  if (!config_.allow_mistakes) fail_on_mistake(*h.value, r.e);
  if (!keeps) r.e.body = finished{};  // releases the tensors: only the role holds them, as in the shell
  take_effects(plan, self);
  inside_ = false;
}

void world::fail_on_mistake(const role& r, const envelope& e) const {
  const auto dropped = r.dropped();
  if (dropped.mistakes() == 0) return;
  auto reason = drop_reason::misaddressed;
  while (dropped[reason] == 0) reason = static_cast<drop_reason>(static_cast<int>(reason) + 1);
  throw mistake(std::string("role ") + std::to_string(index_of(e.h.dst)) + " dropped '" + name_of(e.body) + "' of role " +
                std::to_string(index_of(e.h.src)) + ", step " + std::to_string(e.h.step) + ": " + name_of(reason));
}

void world::schedule_local(time_point when, std::uint32_t plan, role_id self, message body, std::uint64_t number) {
  const auto& h = place(plan, self);
  record* r = nullptr;
  const auto s = fill(r, kind::deliver, h.node, h.node);
  r->e.h = header_to_itself(plan, self);
  r->plan = plan;
  r->session = serial_of(h.node, plan);
  r->e.body = std::move(body);
  r->number = number;
  queue_.push(when, s);
}

header world::header_to_itself(std::uint32_t plan, role_id self) {
  header to;
  to.src = to.dst = self;
  to.job = plans_[plan].job;
  to.incarnation = place(plan, self).incarnation;
  return to;
}

void world::take_effects(std::uint32_t plan, role_id self) {
  for (auto& effect : buffers_.wanted.list()) {
    auto& h = place(plan, self);
    std::visit(overloaded{
                   [&](send_effect& s) { send(plan, self, std::move(s.e)); },
                   [&](run_effect& r) { run_task(plan, self, r); },
                   [&](event_effect& ev) {
                     if (on_event) on_event(ev);
                     if (on_node_event) on_node_event(h.node, plan, ev);
                   },
                   [&](store_effect& s) {
                     for (auto& [name, value] : s.named)
                       if (plan != 0 && config_.dev && !value.frozen()) value.freeze();
                     if (s.what == store_effect::kind_of::checkpoint && (plan == 0 || !on_node_store)) write_checkpoint(h.node, s);
                     if (on_store) on_store(s);
                     if (on_node_store) on_node_store(h.node, plan, s);
                   },
                   [&](shared_effect& x) { begin_shared(plan, self, x); },
                   [&](stop_effect&) { h.stopped = true; },
               },
               effect);
  }
  buffers_.wanted.clear();
}

device& world::stream_of(hosted& h, std::uint32_t solver) {
  if (solver >= h.streams.size()) h.streams.resize(solver + 1);
  auto& own = h.streams[solver];
  if (!own) own = stream_by_rules(*h.dev, config_.maths);
  return own ? *own : *h.dev;
}

device& world::leaving_stream_of(hosted& h) {
  if (!h.leaving) h.leaving = stream_by_rules(*h.dev, config_.maths);
  return h.leaving ? *h.leaving : *h.dev;
}

void world::run_task(std::uint32_t plan, role_id self, run_effect& r) {
  auto& h = place(plan, self);
  // Two seats with the same number only wait for each other.
  const auto in_turn = (std::uint64_t{index_of(self)} << 32 | r.slot) ^ std::uint64_t{plan} << 52;
  const auto number = config_.dev && r.work ? begin_task(in_turn, stream_of(h, r.slot), std::move(r.work)) : 0;
  std::optional<duration> known;
  if (measured) known = measured(self, r.cost);
  auto time = processors_.drawn(h.node, known ? *known : processors_.time_of(r.cost), report_.counts);
  if (const double f = nodes_[h.node].slow; f != 1)
    time = duration(static_cast<std::int64_t>(static_cast<double>(time.count()) * f));
  if (faults_.any())
    if (const double f = faults_.slowness(h.node, now_, report_.counts); f != 1)
      time = duration(static_cast<std::int64_t>(static_cast<double>(time.count()) * f));
  const auto turn = processors_.run(h.node, time, now_);
  if (on_span) on_span({self, r.cost.kind, h.value->packet_of_task(r.token), turn.begin, turn.end, plan});
  // A role's tasks finish in the order in which they began: a task may read results of an earlier
  // task of another slot.
  h.last_task = std::max(h.last_task, turn.end);
  schedule_local(h.last_task, plan, self, finished{r.token}, number);
}

// Returns 0 if the task has already run, else its number.
std::uint64_t world::begin_task(std::uint64_t in_turn, device& dev, task_work task) {
  auto run = [&dev, task = std::move(task)] {
    task_context c{dev};
    dev.begin_task();
    task(c);
    dev.finish_task();
  };
  if (!config_.elsewhere) return run(), 0;
  return tasks_.add(config_.elsewhere(in_turn, std::move(run)));
}

world::~world() { tasks_.wait_for_all(); }

// Occupies a core, as a task does. Its moments (param_store.hpp) are events, so operations of one
// node interleave.
void world::begin_shared(std::uint32_t plan, role_id self, shared_effect& e) {
  auto& h = place(plan, self);
  const auto serial = serial_of(h.node, plan);
  auto& store = serial != 0 ? spawned_on(h.node, plans_[plan].job)->shared : nodes_[h.node].shared;
  if (!store) store = std::make_unique<param_store>();
  const bool adds = e.kind == shared_effect::kind_of::add;
  if (config_.dev && e.kind != shared_effect::kind_of::read) bring_home(*e.value, leaving_stream_of(h));
  const task_cost cost{0, static_cast<double>(e.value->bytes()) * (adds ? 3 : 2), adds ? "add" : "copy"};
  auto turn = processors_.run(h.node, processors_.drawn(h.node, processors_.time_of(cost), report_.counts), now_);
  // A role's operations run one after the other: it reads what it added before.
  const auto late = std::max(duration{}, h.last_shared - turn.begin);
  turn.begin += late, turn.end += late;
  h.last_shared = turn.end;
  if (on_span) on_span({self, cost.kind, {}, turn.begin, turn.end, plan});
  record* r = nullptr;
  const auto s = fill(r, kind::shared, h.node, h.node);
  r->number = store->begin(static_cast<param_store::kind>(e.kind), e.block, std::move(e.value));
  r->bytes = store->moments(static_cast<std::uint32_t>(r->number)) - 1;  // intervals between the first moment and the last
  r->attempt = 0;
  r->sent = turn.begin;
  r->tail = std::max(turn.begin, turn.end - duration(1));  // ends before an operation that begins at turn.end
  r->e.h = header_to_itself(plan, self);
  r->plan = plan;
  r->session = serial;
  r->e.body = finished{e.token};
  queue_.push(turn.begin, s);
}

void world::go_on_shared(slot s, record& r) {
  auto* host = config_.dev ? &config_.dev->host() : nullptr;  // shared arrays are in host memory
  auto* store = nodes_[r.to].shared.get();
  if (r.session != 0) {
    const auto* in = receiver_of(r);
    if (!in) return give_back(s, r);
    store = in->shared.get();
  }
  if (!store->advance(static_cast<std::uint32_t>(r.number), host)) {
    ++r.attempt;
    const auto next = r.sent + (r.tail - r.sent) * r.attempt / static_cast<std::int64_t>(r.bytes);
    return queue_.push(std::max(next, now_), s);
  }
  r.number = 0;
  deliver(r);
  give_back(s, r);
}

fault_counts world::counts() const {
  auto all = report_.counts;
  for (const auto& n : nodes_)
    if (n.shared) all.lost_updates += n.shared->lost();
  for (const auto& n : nodes_)
    for (const auto& in : n.spawns)
      if (in.shared) all.lost_updates += in.shared->lost();
  routes_.add_to(all);
  return all;
}

duration processors::time_of(const task_cost& c) const {
  double s = 0;
  if (model_.flops_per_second > 0) s += c.flops / model_.flops_per_second;
  if (model_.bytes_per_second > 0) s += c.bytes / model_.bytes_per_second;
  return model_.floor + duration(static_cast<std::int64_t>(1e9 * s));
}

duration processors::drawn(std::uint32_t node, duration time, fault_counts& counts) {
  double factor = 1;
  if (model_.kind != straggle::none && (model_.probability >= 1 || random_.chance(model_.probability))) {
    factor =
        model_.kind == straggle::lognormal ? std::exp(model_.spread * random_.normal()) : 1 + model_.spread * random_.exponential();
    ++counts.straggled;
  }
  if (!model_.slow.empty()) {
    if (slow_.empty())
      for (const auto& [n, f] : model_.slow) {
        if (n >= slow_.size()) slow_.resize(n + 1, 1.0);
        slow_[n] *= f;
      }
    if (node < slow_.size()) factor *= slow_[node];
  }
  return factor == 1 ? time : duration(static_cast<std::int64_t>(static_cast<double>(time.count()) * factor));
}

std::vector<time_point>& processors::cores_of(std::uint32_t node) {
  if (node >= cores_.size()) cores_.resize(node + 1);
  if (cores_[node].empty()) cores_[node].assign(std::max(model_.cores, 1u), time_point{});
  return cores_[node];
}

processors::turn processors::run(std::uint32_t node, duration time, time_point now) {
  auto& cores = cores_of(node);
  auto& core = *std::min_element(cores.begin(), cores.end());
  const auto begin = std::max(core, now);
  core = begin + time;
  return {begin, core};
}

void processors::clear(std::uint32_t node, time_point now) {
  for (auto& c : cores_of(node)) c = now;
}

}  // namespace troupe::sim
