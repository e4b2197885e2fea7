// The control actor: hosts cluster controller and member, which do not know CAF.
#include "actors/control/host/actors.hpp"

#include <algorithm>

#include "actors/control/frames.hpp"
#include "actors/control/host/control_parts.hpp"
#include "actors/supervision/drop_log.hpp"
#include "actors/supervision/liveness.hpp"
#include "runtime/access/names.hpp"
#include "runtime/cluster/controller/addressee.hpp"
#include "runtime/cluster/pieces.hpp"
#include "runtime/cluster/role_entries.hpp"
#include "runtime/cluster/view/injection.hpp"
#include "runtime/cluster/view/job_progress.hpp"
#include "runtime/messages/ids.hpp"
#include "runtime/node/executor/checker.hpp"
#include "runtime/node/net/hello.hpp"

namespace troupe::control {
namespace {

// Probes the daemon's actors (liveness.hpp) while the control actor handles messages, of which its
// ticks are some. The watchdog is thus fed by the actors themselves, and not by a clock that would
// run without them. Answers do not go through the control actor's mailbox, which may be long.
class pulse {
 public:
  explicit pulse(shared& s) : s_(s) {}
  void beat(instant now);  // at most ten times a second; does nothing before

 private:
  shared& s_;
  liveness alive_;
  instant last_{};
  bool said_ = false;  // a hung actor has been logged
};

void pulse::beat(instant now) {
  if (!s_.options.on_alive || now - last_ < std::chrono::milliseconds(100)) return;
  last_ = now;
  for (std::size_t i = 0; i < watched_actors; ++i)
    if (s_.answered[i].exchange(false)) alive_.answered(watched_actor{static_cast<std::uint8_t>(i)});
  if (alive_.ask(watched_actor::repl, now)) s_.repl.post(probe{});
  if (alive_.ask(watched_actor::exchange, now)) s_.exchange.post(probe{});
  if (alive_.ask(watched_actor::job_executor, now)) s_.keep.post(probe{});
  alive_.ran(watched_actor::job_executor, s_.executor_clock.used());
  const auto why = alive_.look(now);
  if (!why) {
    said_ = false;
    return s_.options.on_alive();
  }
  if (!std::exchange(said_, true)) s_.log(*why + ": this daemon is not reported alive to the watchdog");
}

// Checks the permission of a received message before it is handled (trust.hpp). A message without
// permission is answered with a refusal or dropped.

// `h`: the cluster controller, on the coordinator's daemon; else null. Returns true if the message
// was turned away.
bool turned_away(const shared& s, const cluster_controller* h, unheeded& dropped, const message_in& m) {
  std::string why;
  if (!is_operator(m.peer)) {
    if (speaker_of(m.what) != speaker::client) return false;  // cluster controller or member check which node may send it
    why = "only clients may send it, and this peer has a node's certificate";
  } else {
    const auto* f = std::get_if<fetch>(&m.what);
    const auto fine = check_message(m.who, m.what, f && h ? h->owner_of(f->job) : std::string());
    if (fine) return false;
    why = fine.error().text;
    if (const auto answer = refusal_of(m.what, why)) s.control_net->send(m.peer, to_frame(*answer));
  }
  if (const auto line = dropped.note(m.peer, m.what, why)) s.log(*line);
  return true;
}

using namespace std::chrono_literals;
constexpr auto tick_every = 100ms;
constexpr auto dial_timeout = 5s, data_dial_timeout = 10s;  // the latter: time for two handshakes
constexpr auto publish_at_least_every = 1s;                 // more often while the view is read
constexpr std::uint64_t slow_bytes = 256 << 10;             // queued for one client; above, it gets no `step` events

std::uint64_t bytes_out(const net::transport_stats& s) {
  std::uint64_t n = 0;
  for (const auto& p : s.peers) n += p.bytes_out;
  return n;
}

class control_actor final : public compat::base_actor {
 public:
  control_actor(caf::actor_config& c, shared& s);
  const char* name() const override { return "control"; }
  caf::behavior make_behavior() override {
    compat::post_after(caf::actor{this}, tick_every, control_note{tick_in{}});
    return {[this](const control_note& n) { receive(n); }};
  }

 private:
  void receive(const control_note& n) {
    now_ = std::chrono::steady_clock::now();
    try {
      std::visit([this](const auto& x) { take(x); }, n.what);
      // A client that receives an event may query the job's state at once, so the new state is
      // published before the event is sent. `step` events and reports are frequent; their changes
      // are published with the next tick.
      const bool minor = is_minor(n);
      if (!minor) publish();
      looped_ = false;
      execute_orders();
      if (looped_ && !minor) publish();
      pulse_.beat(now_);  // not only by ticks, which wait in a long mailbox
    } catch (const std::exception& e) {
      s_.log(std::string("control plane: ") + e.what());
    }
  }

  static bool is_minor(const control_note& n) {
    const auto* e = std::get_if<event_in>(&n.what);
    const auto* m = std::get_if<message_in>(&n.what);
    return std::holds_alternative<tick_in>(n.what) || (e && e->what.event.is<step_event>()) ||
           (m && std::holds_alternative<report>(m->what));
  }

  void take(const message_in& m);
  void take(const link_change& l);
  void take(const event_in& e);
  void take(const store_in& e);
  void take(const delivery& d);
  void take(const submit_in& s);
  void take(const tell_in& t);
  void take(const inject_in& t);
  void take(const listening_in&);
  void take(const drain_in&);
  void take(const tick_in&);

  void execute_orders();
  void perform(const to_peer& x);
  // The job executor or the checker performs it; take(delivery) gets the result.
  template <operation O>
  void request(O x) {
    const auto& to = std::is_same_v<typename O::executor, checker> ? s_.check : s_.keep;
    to.post(operation_note<typename O::executor>{work_of(std::move(x))});
  }
  template <operation O>
  void perform(const O& x) {
    request(x);
  }
  void perform(const make_roles& x);
  void perform(const end_roles& x);
  void perform(const make_plan_order& x);
  void perform(const connect_data& x);
  void perform(const begin_job& x);
  void perform(const suffer& x);
  void perform(const tell_job& x) { s_.host->command(x.job, x.what); }
  void perform(const followed_event& x) {
    s_.said.put(number_of(x.what.job), x.what.event);
    if (only_answers(x.what.event)) return;
    s_.totals.event(number_of(x.what.job), x.what.event);
    record(x.what);
    if (x.what.event.is<step_event>()) s_.book->reached(number_of(x.what.job), x.what.event.step);
  }
  void perform(const log_line& x) { s_.log(x.text); }
  void perform(const journal_line& x) {
    if (const auto written = s_.book->append(x.line); !written) s_.log(written.error().text);
  }

  void record(const job_event& e);
  void answer_repl(const submitted& m);
  void dial_coordinator() {
    if (line_.dial_now(now_)) s_.control_net->connect(s_.coordinator, s_.coordinator_at, dial_timeout);
  }
  void report_state();
  void publish();
  void find_slow_clients();

  shared& s_;
  instant now_{};
  std::optional<cluster_controller> controller_;
  member member_;
  orders controller_out_;
  member_orders member_out_;
  bool looped_ = false;  // the last orders included messages to this node
  coordinator_line line_;
  bool draining_ = false, drained_ = false;
  struct {
    report_clock clock;
    drop_log drops;
    instant published{};
  } reports_;
  std::uint64_t sent_before_ = 0;  // data plane bytes when the job arrived
  repl_submissions submissions_;
  unheeded unheeded_;  // on nodes without a cluster controller
  pulse pulse_{s_};
};

control_actor::control_actor(caf::actor_config& c, shared& s)
    : compat::base_actor(c), s_(s), member_(s.options.node, s.coordinator) {
  compat::ignore_unknown(*this);
  now_ = s.begun;
  if (s_.options.may_inject) member_.allow_injections();
  if (!s_.coordinates()) return;
  controller_.emplace(s_.options.cluster, s_.options.node, tag_of(s_));
  if (s_.options.may_inject) controller_->allow_injections();
  controller_->restore(s_.book->found(), now_, controller_out_);
}

// --- input

void control_actor::take(const message_in& m) {
  if (const auto* s = std::get_if<submit>(&m.what); s && repl_submissions::has(s->ask)) {
    s_.log(m.peer + " uses a submission number that is reserved for REPLs: disconnected");
    return s_.control_net->disconnect(m.peer);
  }
  if (turned_away(s_, controller_ ? &*controller_ : nullptr, unheeded_, m)) return;
  if (const auto* f = std::get_if<fetch>(&m.what)) {
    const auto path = controller_ ? controller_->weights_of(f->job) : std::string();
    s_.control_net->send(m.peer, to_frame(read_piece(*f, path, "weights of this job")));
  } else if (controller_) {
    controller_->on(m.peer, m.what, now_, controller_out_);
  } else if (m.peer == s_.coordinator) {
    member_.on(m.what, now_, member_out_);
  } else if (const auto by = speaker_of(m.what); by == speaker::node || by == speaker::coordinator) {
    const char* why = by == speaker::node ? "this node is not the coordinator" : "only the coordinator's daemon may send it";
    if (const auto line = unheeded_.note(m.peer, m.what, why)) s_.log(*line);
  } else if (const auto* s = std::get_if<submit>(&m.what)) {
    const auto text =
        s_.options.node + " is not the coordinator: submit to " + s_.coordinator + " at " + net::to_string(s_.coordinator_at);
    s_.control_net->send(m.peer, to_frame(submitted{s->ask, 0, {text}}));
  }
}

void control_actor::take(const link_change& l) {
  if (l.data) {
    if (l.up)
      member_.on_data_up(l.peer, l.incarnation, member_out_);
    else
      member_.on_data_down(l.peer, l.reason, member_out_);
    return;
  }
  if (!l.up) submissions_.forget(l.peer);
  if (controller_ && !l.up) controller_->on_peer_down(l.peer, l.reason, now_, controller_out_);
  if (controller_ && l.up) controller_->on_peer_up(l.peer, l.incarnation);
  if (controller_ || l.peer != s_.coordinator) return;
  const bool was = std::exchange(line_.up, l.up);
  if (l.up) {
    member_.on_coordinator_up(member_out_);
  } else {
    if (was) member_.on_coordinator_down(l.reason, member_out_);
    s_.repl.post(coordinator_gone{});
  }
}

void control_actor::take(const event_in& e) {
  if (controller_) return controller_->on_event(e.what, now_, controller_out_);
  if (const auto* bad = e.what.event.as<error_event>()) member_.on_role_error(e.what.job, *bad, member_out_);
}

// The last event goes by the job executor, which may wait for the disk.
void control_actor::record(const job_event& e) {
  const auto number = number_of(e.job);
  s_.runs->event(number, e);
  if (ends_job(e.event)) request(end_run{number, e, controller_->weights_of(e.job)});
}

void control_actor::take(const store_in& e) {
  if (!controller_) return;
  if (e.what.what == kept_kind::best) return s_.runs->store(number_of(e.job), e.what);
  if (e.what.what == kept_kind::handover) {  // the job executor gets it before the swap
    request(keep_handover{e.job, e.what});
    return controller_->on_handover(e.job, e.what.step, now_, controller_out_);
  }
  // Left out if two stores wait already: each holds its tensors in memory until the disk has them.
  const bool left_out = e.what.what == kept_kind::checkpoint && controller_->crowded(e.job);
  if (e.what.what == kept_kind::checkpoint) s_.totals.saving(number_of(e.job));
  controller_->on_store_begun(e.job);
  request(left_out ? write_state{e.job, {e.what.what, e.what.step, {}, {}}, true} : write_state{e.job, e.what});
}

void control_actor::take(const delivery& d) {
  takers to{controller_ ? &*controller_ : nullptr, &member_, now_, &controller_out_, &member_out_, {}, {}, {}};
  to.roles_ended = [this] {
    report_state();
    const auto sent = bytes_out(s_.data_net->stats());
    return sent - std::min(sent, sent_before_);
  };
  to.saved = [this](const stored& x) {
    if (!x.error.empty()) s_.log(std::string("cannot save ") + name_of(x.what) + ": " + x.error);
    if (x.what == kept_kind::checkpoint) s_.totals.saved(number_of(x.job), x.error.empty());
  };
  to.log = [this](const std::string& line) { s_.log(line); };
  d(to);
}

void control_actor::take(const submit_in& s) {
  if (!controller_) return;
  controller_->take_submission(s.owner, s.peer, submit{s.what, false, submissions_.put(s)}, now_, controller_out_);
}

void control_actor::take(const tell_in& t) {
  const auto told = controller_ ? controller_->tell(t.who, t.job, t.what, now_, controller_out_)
                                : expected<void>(unexpected(error("this node is not the coordinator")));
  if (told) return;
  s_.log(told.error().in(name_of(t.what)).text);
  s_.said.put(number_of(t.job), {0, not_told_event{told.error().text}, {t.what.id}});  // for a REPL that waits for the outcome
}

void control_actor::take(const inject_in& t) {
  if (!controller_) return;
  const auto until = fault_lasts(t.what.what) ? clock_text(std::chrono::system_clock::now() + t.what.lasts) : std::string();
  if (const auto injected = controller_->inject(t.who, t.what, until, now_, controller_out_); !injected)
    s_.log(injected.error().text);
}

void control_actor::take(const listening_in&) {
  line_.listening = true;
  member_.introduce(introduction(s_));
  if (!controller_) return dial_coordinator();
  line_.up = true;
  member_.on_coordinator_up(member_out_);
}

void control_actor::take(const drain_in&) {
  if (std::exchange(draining_, true)) return;
  if (controller_)
    controller_->drain(now_, controller_out_);
  else
    member_.drain(member_out_);
}

void control_actor::take(const tick_in&) {
  compat::post_after(caf::actor{this}, tick_every, control_note{tick_in{}});
  if (controller_) controller_->on_tick(now_, controller_out_);
  member_.on_tick(now_, member_out_);
  dial_coordinator();
  if (reports_.clock.due(member_.hosts(), s_.options.cluster.nodes.size(), now_)) {
    report_state();
    if (controller_) find_slow_clients();
  }
  if (s_.published.read() || now_ - reports_.published >= publish_at_least_every) publish();
}

// --- output

// Carries out the orders of cluster controller and member until none is left. Messages to this node
// itself bring further orders: the coordinator's node is a member like any other.
void control_actor::execute_orders() {
  while (!controller_out_.empty() || !member_out_.empty()) {
    for (const auto& x : std::exchange(controller_out_, {})) std::visit([this](const auto& o) { perform(o); }, x);
    for (const auto& x : std::exchange(member_out_, {})) std::visit([this](const auto& o) { perform(o); }, x);
  }
  const bool idle = controller_ ? controller_->drained() && member_.idle() : member_.idle();
  if (!draining_ || !idle || std::exchange(drained_, true)) return;
  const auto lost = controller_ ? controller_->lost_by_draining() : std::string();
  if (!lost.empty()) s_.log("drained, but not everything could be stored: " + lost);
  if (s_.options.on_drained) s_.options.on_drained(lost.empty());
}

void control_actor::perform(const to_peer& x) {
  if (const auto* s = std::get_if<submitted>(&x.what); s && repl_submissions::has(s->ask)) return answer_repl(*s);
  if (x.peer != s_.options.node) {
    s_.control_net->send(x.peer, to_frame(x.what));
    return;
  }
  looped_ = true;
  if (is_for_member(x.what))
    member_.on(x.what, now_, member_out_);
  else if (controller_)
    controller_->on(x.peer, x.what, now_, controller_out_);
}

void control_actor::perform(const make_roles& x) {
  sent_before_ = bytes_out(s_.data_net->stats());
  request(x);
}

void control_actor::perform(const make_plan_order& x) {
  if (!member_.hosts()) sent_before_ = bytes_out(s_.data_net->stats());
  request(x);
}

void control_actor::perform(const end_roles& x) {
  request(x);
  request(remove_folders());
}

void control_actor::perform(const connect_data& x) {
  if (const auto at = net::parse_address(x.address))
    s_.data_net->connect(x.peer, *at, data_dial_timeout);
  else
    member_.on_data_down(x.peer, at.error().message, member_out_);
}

void control_actor::perform(const begin_job& x) {
  envelope e;
  e.h.job = x.job;
  e.h.dst = role_id{0};
  e.body = start{};
  s_.host->deliver(std::move(e));
}

void control_actor::perform(const suffer& x) {
  if (const auto begun = s_.faults.begin(x.what); !begun)
    s_.log(std::string("the injected ") + text_of(x.what.what) + " cannot begin: " + begun.error().text);
}

void control_actor::answer_repl(const submitted& m) {
  const auto asked = submissions_.take(m.ask);
  if (!asked) return;
  send_answer(s_, asked->peer, asked->id, s_.options.answers.submitted(asked->json, number_of(m.job), m.messages));
}

void control_actor::report_state() {
  const auto roles = s_.host->published();
  for (const auto& line : reports_.drops.lines(roles)) s_.log(line);
  const auto r = report_of(s_, roles, now_);
  if (controller_)
    controller_->on(s_.options.node, r, now_, controller_out_);
  else if (line_.up)
    s_.control_net->send(s_.coordinator, to_frame(r));
}

void control_actor::publish() {
  reports_.published = now_;
  repl_view v;
  v.cluster = s_.options.cluster.name;
  v.node = s_.options.node;
  v.coordinator = s_.coordinator;
  v.up_seconds = seconds_of(now_ - s_.begun);
  if (controller_) controller_->fill(v, now_);
  if (controller_)
    for (auto& j : v.jobs) j.folder = s_.runs->folder(j.id);
  const auto unheard = [](const order& o) { return std::holds_alternative<followed_event>(o); };
  v.events = s_.said.last() + static_cast<std::uint64_t>(std::count_if(controller_out_.begin(), controller_out_.end(), unheard));
  s_.published.put(std::move(v));
}

// Slow clients get no `step` events. The transport disconnects clients that read nothing, once
// their queue is full.
void control_actor::find_slow_clients() {
  for (const auto& p : s_.control_net->stats().peers)
    if (p.up && !s_.is_node(p.peer)) controller_->slow(p.peer, p.queued_bytes > slow_bytes);
}
}  // namespace

caf::actor spawn_control(caf::actor_system& system, shared& s) { return system.spawn<control_actor, caf::detached>(s); }

namespace {

using namespace std::chrono_literals;
constexpr std::size_t most_awaited = 32;
constexpr auto forgotten_after = 60s;  // a client asks again every 50 ms

}  // namespace

expected<std::optional<std::string>> measurements::result(const std::string& ticket, std::function<std::string()> work) {
  std::lock_guard guard(lock_);
  if (closed_) return unexpected(error("this daemon ends"));
  drop_forgotten();
  auto at = awaited_.find(ticket);
  if (at == awaited_.end()) {
    if (awaited_.size() >= most_awaited)
      return unexpected(error("this node measures for other clients; run `troupe doctor` again in a minute"));
    const auto run = [this, does = std::move(work)] {
      std::lock_guard alone(one_at_a_time_);
      return does();
    };
    at = awaited_.emplace(ticket, entry{std::async(std::launch::async, run), {}}).first;
  }
  at->second.asked = std::chrono::steady_clock::now();
  if (at->second.result.wait_for(0s) != std::future_status::ready) return std::optional<std::string>();
  auto ready = std::move(at->second.result);
  awaited_.erase(at);
  try {
    return std::optional(ready.get());
  } catch (const std::exception& e) {
    return unexpected(error(std::string("the measurement has failed: ") + e.what()));
  }
}

void measurements::close() {
  std::map<std::string, entry> begun;  // its destructor waits
  std::lock_guard guard(lock_);
  closed_ = true;
  begun.swap(awaited_);
}

void measurements::drop_forgotten() {
  const auto now = std::chrono::steady_clock::now();
  std::erase_if(awaited_, [&](const auto& a) {
    return now - a.second.asked > forgotten_after && a.second.result.wait_for(0s) == std::future_status::ready;
  });
}

}  // namespace troupe::control
