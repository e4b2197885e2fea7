#include "runtime/node/simulation/sim_daemon.hpp"

#include <algorithm>

#include "runtime/access/names.hpp"
#include "runtime/cluster/controller/addressee.hpp"
#include "runtime/job/plugin_abi.hpp"

namespace troupe::sim {

using namespace std::chrono_literals;

namespace {

constexpr auto tick_every = 100ms;
constexpr auto redial_every = 1s;
constexpr auto dial_timeout = 5s;

}  // namespace

std::uint32_t coordinator_in(const cluster_spec& c) {
  for (std::uint32_t i = 0; i < c.nodes.size(); ++i)
    for (const auto& r : c.nodes[i].roles)
      if (r == "coordinator") return i;
  return 0;
}

void daemon_watcher::on_message(std::uint32_t, const control::message&) {}
void daemon_watcher::on_order(const control::order&) {}
void daemon_watcher::on_role_event(std::uint32_t, const event_effect&, std::uint32_t) {}
void daemon_watcher::on_client_message(const std::string&, const control::message&) {}
void daemon_watcher::on_drained(std::uint32_t) {}
void daemon_watcher::on_log(std::uint32_t, const std::string&) {}
void daemon_watcher::on_said(const event_effect&) {}

sim_daemon::sim_daemon(daemon_surroundings& s, std::uint32_t node, sim_disk disk, std::uint64_t incarnation)
    : s_(s),
      node_(node),
      coordinator_(coordinator_in(s.cluster)),
      name_(s.cluster.nodes[node].name),
      disk_(std::move(disk)),
      incarnation_(incarnation),
      when_(s.all_roles),
      member_(name_, s.cluster.nodes[coordinator_].name) {
  const bool coordinates = node_ == coordinator_;
  std::map<std::uint32_t, control::unfinished_job> taken_up;
  const auto tag = static_cast<std::uint16_t>(incarnation_ % 65521);
  if (coordinates) {
    book_ = std::make_unique<control::journal>(disk_.journal);
    if (!book_->opened()) s_.watch.on_log(node_, book_->opened().error().text);
    for (const auto& j : book_->found().jobs)
      if (control::begins_with(j).kind != control::given_file::nothing) taken_up[std::uint32_t{tag} << 16 | j.number] = j;
  }
  control::job_executor::place at{place(), *this, *this, s_.dev, std::move(taken_up)};
  at.plans = s_.plans;
  at.states = disk_.states;
  at.reserves_memory = false;
  executor_.emplace(std::move(at));
  checker_.emplace(place(), s_.plans, disk_.states);
  if (coordinates) {
    controller_.emplace(s_.cluster, name_, tag);
    controller_->restore(book_->found(), now(), controller_out_);
  }
  s_.net.open(node_, incarnation_, *this);
  post(0ns, [this] {
    member_.introduce({"sim", s_.numerics, control::protocol, abi_version, incarnation_});
    if (!controller_) return;
    line_up_ = true;
    member_.on_coordinator_up(member_out_);
  });
  post(range{1ns, tick_every}.drawn(s_.draws), [this] { tick(); });
}

sim_daemon::~sim_daemon() = default;

std::optional<std::uint32_t> sim_daemon::node_named(const std::string& name) const {
  const auto at = s_.named.find(name);
  if (at == s_.named.end()) return std::nullopt;
  return at->second;
}

// --- roles

// The memory of the job's shards on a node: parameters and states of the update rule.
static std::uint64_t shard_bytes(const prepared_job& j, const std::string& node) {
  std::int64_t count = 0;
  for (const auto& b : j.plan.blocks)
    for (std::uint32_t group = 0; group < j.plan.server_groups; ++group)
      if (j.plan.nodes[j.plan[j.plan.shard_of(b, group)].node].name == node) count += b.count;
  return static_cast<std::uint64_t>(count) * 4 * (1 + j.plan.rule_states);
}

void sim_daemon::spawn(std::uint32_t job, const std::shared_ptr<const prepared_job>& j, std::uint32_t me,
                       std::uint32_t generation) {
  std::vector<std::uint32_t> places;
  for (const auto& n : j->plan.nodes) places.push_back(node_named(n.name).value());
  std::vector<std::uint32_t> node_of;
  for (const auto& r : j->plan.roles) node_of.push_back(places[r.node]);
  std::vector<world::seat> seats;
  for (const auto& r : j->plan.roles)
    if (r.node == me) seats.push_back({r.id, make_role(j, r.id), r.device});
  s_.all_roles.spawn(node_, s_.all_roles.know(job, generation, std::move(node_of)), std::move(seats));
  const auto had = replaced_ ? shard_bytes(*replaced_, name_) : 0;
  const auto has = shard_bytes(*j, name_);
  new_shard_bytes_ += has > had ? has - had : 0;
  hosted_[job] = j;
}

void sim_daemon::end(std::uint32_t job) {
  s_.all_roles.end(node_, job);
  if (const auto at = hosted_.find(job); at != hosted_.end()) replaced_ = hosted_.extract(at).mapped();
}

std::vector<control::role_entry> sim_daemon::roles() const {
  std::vector<control::role_entry> rows;
  for (const auto& r : s_.all_roles.roles_of(node_)) {
    const auto job = hosted_.find(s_.all_roles.job_of(r.plan));
    if (job == hosted_.end()) continue;
    const auto t = r.value->status();
    control::role_entry row;
    row.job = job->first;
    row.id = index_of(r.id);
    row.name = job->second->plan[r.id].name;
    row.waits_for = t.waits_for;
    row.step = t.step, row.version = t.version;
    row.messages = r.messages;
    row.queued = t.queued, row.in_flight = t.in_flight, row.credit = t.credit;
    rows.push_back(std::move(row));
  }
  return rows;
}

void sim_daemon::role_event(std::uint32_t job, std::uint32_t generation, const event_effect& e) {
  from_roles([this, job, generation, e] {
    if (!controller_) {
      if (const auto* bad = e.as<error_event>()) member_.on_role_error(job, *bad, member_out_);
      return;
    }
    s_.watch.on_role_event(generation, e, generations_[job]);
    controller_->on_event({job, e}, now(), controller_out_);
  });
}

void sim_daemon::role_store(std::uint32_t job, const store_effect& e) {
  from_roles([this, job, e] { take_store(job, e); });
}

void sim_daemon::role_failure(std::uint32_t job, std::uint32_t generation, role_id who, std::uint64_t step,
                              const std::string& what) {
  const auto j = hosted_.find(job);
  if (j == hosted_.end()) return;
  const struct role_failure failure { j->second->plan[who].name, what };
  role_event(job, generation, {step, error_event{failure.text(), {}, {}, failure}});
}

// --- input, one event after the other

void sim_daemon::post(duration after, std::function<void()> what) {
  when_.in(after, [this, what = std::move(what)] {
    what();
    flush();
  });
}

// Keeps the order in which roles emitted their effects.
void sim_daemon::from_roles(std::function<void()> what) {
  heard_until_ = std::max(heard_until_, when_.now() + range{1us, 200us}.drawn(s_.draws));
  post(heard_until_ - when_.now(), std::move(what));
}

void sim_daemon::keep(duration takes, control::work<control::job_executor> what) {
  kept_until_ = std::max(kept_until_, when_.now()) + takes;
  post(kept_until_ - when_.now(), [this, what = std::move(what)] {
    const auto before = disk_.states->read + new_shard_bytes_;
    replaced_.reset();
    auto result = what(*executor_);
    const auto until = when_.now() + time_of_state(disk_.states->read + new_shard_bytes_ - before);
    kept_until_ = std::max(kept_until_, until);
    if (!result) return;
    answered_until_ = std::max(answered_until_, until + range{1us, 500us}.drawn(s_.draws));
    post(answered_until_ - when_.now(), [this, result = std::move(result)] { deliver(result); });
  });
}

void sim_daemon::deliver(const control::delivery& d) {
  control::takers to{controller_ ? &*controller_ : nullptr, &member_, now(), &controller_out_, &member_out_, {}, {}, {}};
  to.roles_ended = [] { return std::uint64_t{0}; };
  to.saved = [this](const control::stored& x) {
    if (!x.error.empty()) s_.watch.on_log(node_, std::string("cannot save ") + name_of(x.what) + ": " + x.error);
  };
  to.log = [this](const std::string& line) { s_.watch.on_log(node_, line); };
  d(to);
}

duration sim_daemon::time_of_state(std::uint64_t bytes) const {
  const auto rate = s_.times.state_bytes_per_second;
  return rate > 0 ? duration(static_cast<std::int64_t>(1e9 * static_cast<double>(bytes) / rate)) : duration{};
}

duration sim_daemon::time_of(const control::write_state& x) {
  auto takes = s_.times.store.drawn(s_.draws);
  if (s_.times.store_bytes_per_second > 0) {
    double bytes = 0;
    for (const auto& [name, t] : x.what.named) bytes += static_cast<double>(t.bytes());
    takes += duration(static_cast<std::int64_t>(1e9 * bytes / s_.times.store_bytes_per_second));
  }
  return range{takes, takes}.times(slow_disk).least;
}

void sim_daemon::on_up(plane p, std::uint32_t peer, std::uint64_t incarnation) {
  when_.now_or_later([=, this] { receive_up(p, peer, incarnation); });
}
void sim_daemon::on_down(plane p, std::uint32_t peer, const std::string& reason) {
  when_.now_or_later([=, this] { receive_down(p, peer, reason); });
}
void sim_daemon::receive(std::uint32_t peer, control::message m) {
  when_.now_or_later([this, peer, m = std::move(m)]() mutable {
    if (s_.wrong.takes && !s_.wrong.takes(node_, m)) return;
    if (controller_)
      controller_->on(name_of_node(peer), m, now(), controller_out_);
    else if (peer == coordinator_)
      member_.on(m, now(), member_out_);
    flush();
    s_.watch.on_message(node_, m);
  });
}

void sim_daemon::receive_up(plane p, std::uint32_t peer, std::uint64_t incarnation) {
  if (p == plane::data) {
    member_.on_data_up(name_of_node(peer), incarnation, member_out_);
  } else if (controller_) {
    controller_->on_peer_up(name_of_node(peer), incarnation);
  } else if (peer == coordinator_) {
    line_up_ = true;
    member_.on_coordinator_up(member_out_);
  }
  flush();
}

void sim_daemon::receive_down(plane p, std::uint32_t peer, const std::string& reason) {
  if (s_.wrong.hears_end && !s_.wrong.hears_end(node_, peer)) return;
  if (p == plane::data) {
    member_.on_data_down(name_of_node(peer), reason, member_out_);
  } else if (controller_) {
    controller_->on_peer_down(name_of_node(peer), reason, now(), controller_out_);
  } else if (peer == coordinator_ && std::exchange(line_up_, false)) {
    member_.on_coordinator_down(reason, member_out_);
  }
  flush();
}

void sim_daemon::client_says(const std::string& client, control::message m) {
  when_.now_or_later([this, client, m = std::move(m)] {
    if (controller_) controller_->on(client, m, now(), controller_out_);
    flush();
  });
}

expected<void> sim_daemon::tell(const command& c) {
  if (when_.stopped()) return unexpected("the daemon is stopped");
  if (!controller_) return unexpected("this node is not the coordinator");
  auto told = controller_->tell(0, c, now(), controller_out_);
  flush();
  return told;
}

command_id sim_daemon::command_of(const person& who, std::uint32_t job, command c) {
  c.id = said_.next_command();
  post(range{1us, 500us}.drawn(s_.draws), [this, who, job, c] {
    if (!controller_) return;
    const auto told = controller_->tell(who, job, c, now(), controller_out_);
    if (!told) say(job, {0, not_told_event{told.error().text}, {c.id}});
  });
  return c.id;
}

const repl_view& sim_daemon::published() {
  if (!published_at_ || when_.now() - *published_at_ >= tick_every) {
    published_ = view();
    published_at_ = when_.now();
  }
  return published_;
}

repl_view sim_daemon::view() const {
  repl_view v;
  if (controller_) controller_->fill(v, now());
  v.events = said_.last();
  return v;
}

void sim_daemon::say(std::uint32_t job, const event_effect& e) {
  said_.put(control::number_of(job), e);
  s_.watch.on_said(e);
}

void sim_daemon::drain() {
  if (std::exchange(draining_, true)) return;
  when_.now_or_later([this] {
    if (controller_)
      controller_->drain(now(), controller_out_);
    else
      member_.drain(member_out_);
    flush();
  });
}

void sim_daemon::take_store(std::uint32_t job, const store_effect& e) {
  if (!controller_) return;
  auto kept = e;
  const bool lost = s_.wrong.keeps && !s_.wrong.keeps(node_, kept);
  if (e.what == store_effect::kind_of::handover) {
    if (!lost) request(control::keep_handover{job, std::move(kept)});
    return controller_->on_handover(job, e.step, now(), controller_out_);
  }
  const bool left_out = e.what == store_effect::kind_of::checkpoint && controller_->crowded(job);
  controller_->on_store_begun(job);
  if (lost) return controller_->on_stored({job, e.what, "lost", {}, {}}, now(), controller_out_);
  request(control::write_state{job, std::move(kept), left_out});
}

void sim_daemon::tick() {
  if (controller_) controller_->on_tick(now(), controller_out_);
  member_.on_tick(now(), member_out_);
  const auto t = when_.now();
  if (!controller_ && !line_up_ && t - dialled_ >= redial_every) {
    dialled_ = t;
    s_.net.dial(plane::control, node_, coordinator_, dial_timeout);
  }
  if (t - reported_ >= control::report_interval(member_.hosts(), s_.cluster.nodes.size())) {
    reported_ = t;
    report_state();
  }
  post(tick_every, [this] { tick(); });
}

void sim_daemon::report_state() {
  control::report r;
  r.roles = roles();
  if (controller_)
    controller_->on(name_, r, now(), controller_out_);
  else if (line_up_)
    perform(control::to_peer{name_of_node(coordinator_), std::move(r)});
}

// --- output

void sim_daemon::flush() {
  if (settling_) return;
  settling_ = true;
  while (!controller_out_.empty() || !member_out_.empty()) {
    auto asked = std::exchange(controller_out_, {});
    if (s_.wrong.of_controller) s_.wrong.of_controller(node_, asked);
    for (const auto& x : asked) {
      s_.watch.on_order(x);
      std::visit([this](const auto& o) { perform(o); }, x);
    }
    auto own = std::exchange(member_out_, {});
    if (s_.wrong.of_member) s_.wrong.of_member(node_, own);
    for (const auto& x : own) std::visit([this](const auto& o) { perform(o); }, x);
  }
  settling_ = false;
  const bool idle = controller_ ? controller_->drained() && member_.idle() : member_.idle();
  if (draining_ && idle && !std::exchange(drained_, true)) s_.watch.on_drained(node_);
}

void sim_daemon::perform(const control::to_peer& x) {
  if (const auto* b = std::get_if<control::swap>(&x.what); b && controller_) swapping_[b->job] = b->plan_generation;
  if (x.peer == name_) {
    if (control::is_for_member(x.what))
      member_.on(x.what, now(), member_out_);
    else if (controller_)
      controller_->on(x.peer, x.what, now(), controller_out_);
    return;
  }
  if (is_operator(x.peer)) return s_.watch.on_client_message(x.peer, x.what);
  const auto to = node_named(x.peer);
  if (!to) return;
  s_.net.send(node_, *to, [&s = s_, from = node_, to = *to, m = x.what] {
    if (auto* there = s.at(to)) there->receive(from, m);
  });
}

void sim_daemon::perform(const control::check_text& x) {
  checked_until_ = std::max(checked_until_, when_.now()) + s_.times.plan.drawn(s_.draws);
  post(checked_until_ - when_.now(), [this, what = control::work_of(x)] { deliver(what(*checker_)); });
}

void sim_daemon::perform(const control::begin_job& x) {
  generations_[x.job] = swapping_[x.job];
  envelope e;
  e.h.job = x.job;
  e.h.dst = role_id{0};
  e.body = start{};
  s_.all_roles.deliver(node_, x.job, std::move(e));
}

void sim_daemon::perform(const control::tell_job& x) {
  envelope e;
  e.h.job = x.job;
  e.h.dst = role_id{0};
  e.body = x.what;
  s_.all_roles.deliver(node_, x.job, std::move(e));
}

void sim_daemon::perform(const control::journal_line& x) {
  if (const auto kept = book_->append(x.line); !kept) s_.watch.on_log(node_, kept.error().text);
}

void sim_daemon::perform(const control::connect_data& x) {
  if (const auto to = node_named(x.peer)) s_.net.dial(plane::data, node_, *to, dial_timeout);
}

}  // namespace troupe::sim
