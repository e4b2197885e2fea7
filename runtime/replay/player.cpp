#include "runtime/replay/player.hpp"

#include <algorithm>
#include <cstring>
#include <new>

#include "ops/device.hpp"
#include "runtime/base/exception_text.hpp"
#include "runtime/messages/crossing.hpp"
#include "runtime/messages/wire.hpp"

namespace troupe::replay {
namespace {

constexpr std::size_t max_departures = 5;

bool is_finished(const delivery& d) { return d.kind == message(finished{}).index() || d.kind == task_failed; }
// A copy with the alignment that decode() needs.
std::shared_ptr<const void> aligned_copy(const std::string& s) {
  constexpr std::align_val_t at{wire_alignment};
  std::shared_ptr<void> p(::operator new(s.size() + 1, at), [](void* x) { ::operator delete(x, at); });
  std::memcpy(p.get(), s.data(), s.size());
  return p;
}

}  // namespace

void player::add(std::unique_ptr<role> value, std::string name, std::uint32_t node, const role_part* log) {
  hosted h;
  h.value = std::move(value);
  h.name = std::move(name);
  h.node = node;
  h.log = log;
  all_cut_ = all_cut_ && (!log || log->cut);
  roles_.push_back(std::move(h));
}

// Reads the next entry of the role's log, if there is one.
void player::advance(hosted& h) {
  h.next.reset();
  while (h.log) {
    if (h.reader) h.next = h.reader->next();
    if (h.next) return void(++h.read);
    if (h.reader && h.reader->damaged()) {
      end_.departures.push_back("the log of " + h.name + " is damaged after " + std::to_string(h.read) + " messages");
      return;
    }
    if (h.chunk == h.log->chunks.size()) return;
    h.reader.emplace(h.log->chunks[h.chunk++]);
  }
}

std::optional<replayed> player::step() {
  if (!std::exchange(begun_, true)) {
    for (auto& h : roles_) advance(h);
    for (std::uint32_t r = 0; r < roles_.size(); ++r) wake(r);
  }
  do {
    while (!awake_.empty()) {
      const auto r = awake_.begin()->second;
      awake_.erase(awake_.begin());
      roles_[r].awake = false;
      if (auto d = hand_next(role_id{r})) {
        ++roles_[r].handled;
        wake(r);
        return replayed{role_id{r}, *std::move(d)};
      }
    }
  } while (leaves_logs_ && skip_one());
  return std::nullopt;
}

replay_end player::end() const {
  auto e = end_;
  for (const auto& h : roles_)
    for (const auto& [from, w] : h.received) e.lost += w.passed;
  look_for_departures(e);
  return e;
}

replayed_role player::look(role_id r) const {
  const auto& h = roles_[index_of(r)];
  replayed_role s{h.value->status(), h.handled, h.stopped, h.failed, h.next};
  s.status.dropped = h.value->dropped();
  for (const auto& [from, w] : h.received)
    for (const auto& e : w.sent) s.arrived.push_back(delivery_of(e, {}));
  for (const auto& t : h.over) s.over.push_back(t.token);
  return s;
}

void player::wake(std::uint32_t r) {
  auto& h = roles_[r];
  if (std::exchange(h.awake, true)) return;
  awake_.emplace(h.next ? h.next->at : h.arrived, r);
}

// Skips the earliest message that the logs name next: no role sends it.
bool player::skip_one() {
  hosted* first = nullptr;
  for (auto& h : roles_)
    if (h.next && !h.failed && !h.stopped && (!first || h.next->at < first->next->at)) first = &h;
  if (!first) return false;
  has_skipped_ = true;
  advance(*first);
  wake(static_cast<std::uint32_t>(first - roles_.data()));
  return true;
}

std::optional<delivery> player::hand_next(role_id self) {
  auto& h = roles_[index_of(self)];
  if (!h.value || h.failed || h.stopped) return std::nullopt;
  if (h.next) return hand_logged(self, h);
  return takes_any(h) ? hand_any(self, h) : std::nullopt;
}

void player::tell_of_task(role_id self, hosted& h, std::deque<over_task>::iterator at, std::uint64_t step) {
  const auto task = std::move(*at);
  h.over.erase(at);
  if (task.error) return fail(self, step, *task.error);
  envelope e;
  e.h.job = job_;
  e.h.dst = self;
  e.body = finished{task.token};
  hand(self, std::move(e));
}

// Delivers the message that the log names next. Nullopt: it has not arrived.
std::optional<delivery> player::hand_logged(role_id self, hosted& h) {
  const delivery d = *h.next;
  envelope e;
  std::deque<over_task>::iterator task = h.over.end();
  if (is_finished(d)) {
    task = std::find_if(h.over.begin(), h.over.end(),
                        [&](const over_task& t) { return t.token == d.what && t.error.has_value() == (d.kind == task_failed); });
    if (task == h.over.end()) return std::nullopt;
  } else if (d.from == no_role) {
    if (has_skipped_) return std::nullopt;
    const auto bytes = aligned_copy(d.whole);
    if (!decode(bytes.get(), d.whole.size(), bytes, e)) return std::nullopt;
  } else {
    auto& [from, passed] = h.received[index_of(d.from)];
    const auto at = std::find_if(from.begin(), from.end(), [&](const envelope& x) { return names(d, x); });
    if (at == from.end()) return std::nullopt;
    const auto before = static_cast<std::size_t>(at - from.begin());
    passed = before < passed ? passed - 1 : before;
    e = std::move(*at);
    from.erase(at);
  }
  ++end_.delivered;
  h.now = d.at;
  advance(h);
  if (is_finished(d))
    tell_of_task(self, h, task, d.step);
  else
    hand(self, std::move(e));
  return d;
}

// Delivers any message, in order of arrival, then any finished task.
std::optional<delivery> player::hand_any(role_id self, hosted& h) {
  h.now = std::max(h.now, h.arrived);
  while (!h.order.empty()) {
    auto& from = h.received[h.order.front()].sent;
    h.order.pop_front();
    if (from.empty()) continue;
    auto e = std::move(from.front());
    from.pop_front();
    auto d = delivery_of(e, h.now);
    hand(self, std::move(e));
    return d;
  }
  if (h.over.empty()) return std::nullopt;
  delivery d;
  d.kind = h.over.front().error ? task_failed : static_cast<std::uint8_t>(message(finished{}).index());
  d.what = h.over.front().token;
  d.at = h.now;
  tell_of_task(self, h, h.over.begin(), 0);
  return d;
}

void player::hand(role_id self, envelope&& e) {
  auto& h = roles_[index_of(self)];
  const auto step = e.h.step;
  e.h.job = job_;
  wanted_.clear();
  try {
    h.value->on(e, h.now, wanted_);
    e.body = finished{};  // drops the body, so that the role is its only owner
    take_effects(self);
  } catch (...) {
    fail(self, step, current_exception_text());
  }
}

void player::take_effects(role_id self) {
  auto& h = roles_[index_of(self)];
  for (auto& x : wanted_.list())
    std::visit(overloaded{
                   [&](send_effect& s) { send(self, std::move(s.e)); },
                   [&](run_effect& r) { run_task(h, r); },
                   [&](event_effect& e) {
                     if (on_event) on_event(self, e);
                   },
                   [&](store_effect& s) {
                     for (auto& [name, value] : s.named)
                       if (!value.frozen()) value.freeze();
                     if (on_store) on_store(s);
                   },
                   [&](shared_effect& s) { share(self, s); },
                   [&](stop_effect&) { h.stopped = true; },
               },
               x);
  wanted_.clear();
}

void player::send(role_id self, envelope&& e) {
  e.h.job = job_;
  if (e.h.src == no_role) e.h.src = self;
  const auto to = index_of(e.h.dst);
  if (to >= roles_.size()) return;
  freeze(e);
  auto& h = roles_[to];
  const auto from = index_of(e.h.src);
  h.received[from].sent.push_back(std::move(e));
  h.arrived = std::max(h.arrived, roles_[index_of(self)].now);
  if (takes_any(h)) h.order.push_back(from);
  wake(to);
}

void player::run_task(hosted& h, run_effect& r) {
  over_task t{r.token, {}};
  try {
    task_context c{dev_};
    dev_.begin_task();
    r.work(c);
    dev_.finish_task();
  } catch (...) {
    dev_.end_task();
    t.error = std::string(r.cost.kind) + ": " + current_exception_text();
  }
  h.over.push_back(std::move(t));
}

void player::share(role_id self, shared_effect& x) {
  auto& h = roles_[index_of(self)];
  auto& store = shared_[h.node];
  if (x.kind != shared_effect::kind_of::read) bring_home(*x.value, dev_);
  const auto operation = store.begin(static_cast<sim::param_store::kind>(x.kind), x.block, std::move(x.value));
  while (!store.advance(operation, &dev_.host())) {
  }
  h.over.push_back({x.token, {}});
}

void player::fail(role_id self, std::uint64_t step, std::string text) {
  auto& h = roles_[index_of(self)];
  h.failed = true;
  wanted_.clear();
  end_.failures.push_back({self, step, std::move(text)});
}

// Reports logged messages that did not arrive. A role that waits for another waiting role is
// reported only if there is nothing else to report.
void player::look_for_departures(replay_end& end) const {
  if (leaves_logs_ || std::any_of(roles_.begin(), roles_.end(), [](const hosted& h) { return h.log && h.log->cut; })) return;
  const auto say = [&](std::string text) {
    if (end.departures.size() < max_departures) end.departures.push_back(std::move(text));
  };
  for (const bool roots : {true, false}) {
    for (const auto& h : roles_) {
      if (!h.log) continue;
      const auto place = h.name + ", after " + std::to_string(h.next ? h.read - 1 : h.read) + " messages: ";
      if (!h.next) {
        if (roots && !h.log->failure.empty() && !h.failed)
          say(place + "it failed here (" + h.log->failure + ") in the original run, but not in the replay");
        continue;
      }
      const auto from = index_of(h.next->from);
      const bool waits = !h.failed && !is_finished(*h.next) && from < roles_.size() && roles_[from].next;
      if (waits == roots) continue;
      const auto source = from < roles_.size() ? " from " + roles_[from].name : std::string();
      if (h.failed)
        say(place + "it fails here; the original run continued with " + to_text(*h.next) + source);
      else if (roots || end.departures.empty())
        say(place + "its log names " + to_text(*h.next) + source + ", which no role has sent");
    }
  }
}

}  // namespace troupe::replay
