#include "runtime/trace/timeline.hpp"

#include <algorithm>
#include <string>

#include "runtime/messages/message.hpp"

namespace troupe {
namespace {

// "send forward"
std::string_view sent_name(std::size_t body) {
  static const auto names = [] {
    std::vector<std::string> all;
    for (std::size_t i = 0; i < std::variant_size_v<troupe::message>; ++i) all.push_back(std::string("send ") + name_of_body(i));
    return all;
  }();
  return body < names.size() ? std::string_view(names[body]) : "send ?";
}

// Returns false if a plan of the sender began between the two ends: they are of two messages.
bool are_of_one_plan(time_point sent, const activity_place& sender, time_point received, const activity_place& receiver) {
  return sent >= receiver.peer_since && received >= sender.since;
}

}  // namespace

template <class F>
timeline::track timeline::place(lanes& among, time_point begin, time_point end, F make) {
  auto free = std::find_if(among.begin(), among.end(), [&](const lane& l) { return l.free <= begin; });
  if (free == among.end()) free = among.insert(free, {make(), {}});
  free->free = end;
  return free->on;
}

void timeline::add(const activity& a, const activity_place& at, duration shift) {
  ++activities_;
  const auto when = a.at + shift;
  auto& t = tracks_of(at);
  switch (a.kind) {
    case activity::kind_of::task: {
      const auto end = when + time_point(static_cast<std::int64_t>(a.value));
      const auto on = place(t.tasks, when, end, [&] { return t.tasks.empty() ? t.messages : out_.track_in(t.messages, at.role); });
      track_details d{.flow = a.id};
      if (a.id != 0) d.numbers = {{{"step", a.step}, {"packet", a.packet}}};
      return out_.slice(on, when, end, task_kinds::name_of(a.what), d);
    }
    case activity::kind_of::status: return count(a, t, when);
    default: return message(a, at, t, when);
  }
}

void timeline::message(const activity& a, const activity_place& at, const role_tracks& t, time_point when) {
  const bool sent = a.kind == activity::kind_of::sent;
  const track_details d{.numbers = {{{"step", a.step}, {"packet", a.packet}, {"bytes", a.size}}},
                        .texts = {{{sent ? "to" : "from", at.peer}}}};
  out_.instant(t.messages, when, sent ? sent_name(a.what) : name_of_body(a.what), d);
  if (at.node == at.peer_node || at.peer_node.empty()) return;
  const message_key key{a.job, sent ? a.role : a.peer, a.value};
  const auto [other, first] = under_way_.try_emplace(key, message_end{a, at, when});
  if (first) {
    order_.push_back(key);
    if (order_.size() <= most_under_way) return;
    forgotten_ += under_way_.erase(order_.front());
    return order_.pop_front();
  }
  const message_end here{a, at, when};
  auto& there = other->second;
  const auto &from = sent ? here : there, &to = sent ? there : here;
  if (there.what.kind == a.kind || !are_of_one_plan(from.at, from.place, to.at, to.place)) {
    ++forgotten_;  // the other end of the earlier one will not follow
    if (here.at >= there.at) there = here;
    return;
  }
  crossed(from, to.at);
  under_way_.erase(other);
}

void timeline::crossed(const message_end& sent, time_point arrived) {
  const auto& [a, at, begun] = sent;
  if (links_process_ == track{}) links_process_ = out_.process("links");
  arrived = std::max(arrived, begun);  // clocks of nodes are aligned to some microseconds only
  const auto on = place(links_[{at.node, at.peer_node}], begun, arrived, [&, at = at] {
    return out_.track_in(links_process_, std::string(at.node) + " to " + std::string(at.peer_node));
  });
  out_.slice(
      on, begun, arrived, name_of_body(a.what),
      {.numbers = {{{"step", a.step}, {"packet", a.packet}, {"bytes", a.size}}}, .texts = {{{"from", at.role}, {"to", at.peer}}}});
}

void timeline::count(const activity& a, role_tracks& t, time_point when) {
  const bool first = !std::exchange(t.counted, true);
  if (first || a.size != t.last_queued) out_.value(t.queued, when, t.last_queued = a.size);
  if (first || a.packet != t.last_in_flight) out_.value(t.in_flight, when, t.last_in_flight = a.packet);
  if (first || a.value != t.last_credit) out_.value(t.credit, when, static_cast<std::int64_t>(t.last_credit = a.value));
}

timeline::role_tracks& timeline::tracks_of(const activity_place& at) {
  const auto [found, isnew] = roles_.try_emplace({at.node, at.role});
  auto& t = found->second;
  if (!isnew) return t;
  const std::string role(at.role);
  t.messages = out_.track_in(node(at.node), role);
  t.queued = out_.counter_in(t.messages, role + " queued", track_event_file::unit::count);
  t.in_flight = out_.counter_in(t.messages, role + " packets", track_event_file::unit::count);
  t.credit = out_.counter_in(t.messages, role + " credit", track_event_file::unit::count);
  return t;
}

timeline::track timeline::node(std::string_view name) {
  const auto [found, isnew] = nodes_.try_emplace(name);
  if (isnew) found->second = out_.process(name);
  return found->second;
}

}  // namespace troupe
