#include "tests/recovery/daemon.hpp"
#include "tests/error_text.hpp"

#include "runtime/job/plugin_abi.hpp"

namespace troupe::recovery {

using namespace std::chrono_literals;

namespace {

constexpr auto tick_every = 100ms;
constexpr auto report_every = 250ms;
constexpr auto redial_every = 1s;
constexpr auto dial_timeout = 5s;

std::string coordinator_in(const cluster_spec& c) {
  for (const auto& n : c.nodes)
    for (const auto& r : n.roles)
      if (r == "coordinator") return n.name;
  return {};
}

}  // namespace

// As the backend of a daemon (actors/control/host/repl.cpp).
class daemon::backend final : public repl_backend {
 public:
  backend(daemon& d, std::string who) : d_(d), who_{std::move(who), certificate_role::admin} {}
  repl_view view() const override { return d_.published_; }
  const repl_events& events() const override { return d_.said_; }
  expected<command_id> tell(std::uint32_t job, command c) override {
    c.id = d_.said_.next_command();
    d_.post(range{1us, 500us}.drawn(d_.s_.random), [&d = d_, who = who_, job, c] {
      const auto told = d.controller_->tell(who, job, c, d.now(), d.controller_out_);
      if (!told) d.say(job, {0, not_told_event{told.error().text}, {c.id}});
    });
    return c.id;
  }
  expected<std::uint32_t> submit(const repl_submission&) override { return unexpected(error("not simulated")); }

 private:
  daemon& d_;
  const person who_;
};

daemon::daemon(surroundings& s, watcher& w, std::string node, std::filesystem::path state, std::uint64_t incarnation)
    : s_(s),
      watch_(w),
      node_(std::move(node)),
      coordinator_(coordinator_in(s.cluster)),
      state_(std::move(state)),
      incarnation_(incarnation),
      when_(s.when),
      roles_(
          node_, when_, s.random, s.compute, *s.dev,
          {[this](const std::string& to, envelope e) { return s_.net.send(plane::data, node_, to, std::move(e)); },
           [this](std::uint32_t job, std::uint32_t plan_generation, const event_effect& e) {
             from_roles([this, job, plan_generation, e] {
               if (!controller_) {
                 if (const auto* bad = e.as<error_event>()) member_.on_role_error(job, *bad, member_out_);
                 return;
               }
               watch_.on_role_event(job, plan_generation, e, generations_[job]);
               controller_->on_event({job, e}, now(), controller_out_);
             });
           },
           [this](std::uint32_t job, std::uint32_t, const store_effect& e) { from_roles([this, job, e] { take_store(job, e); }); },
           [this](const acted& a) { watch_.on_acted(a); }}),
      member_(node_, coordinator_) {
  roles_.no_fence = s.no_fence;
  const bool coordinates = node_ == coordinator_;
  std::map<std::uint32_t, control::unfinished_job> taken_up;
  const auto tag = static_cast<std::uint16_t>(incarnation_ % 65521);
  if (coordinates) {
    book_ = std::make_unique<control::journal>(state_ / "journal");
    if (!book_->opened()) watch_.on_log(node_, book_->opened().error().text);
    for (const auto& j : book_->found().jobs)
      if (control::begins_with(j).kind != control::given_file::nothing) taken_up[std::uint32_t{tag} << 16 | j.number] = j;
  }
  control::take_up_given(place(), book_ ? book_->found().jobs : std::vector<control::unfinished_job>());
  executor_.emplace(control::job_executor::place{place(), roles_, roles_, s_.dev, std::move(taken_up)});
  checker_.emplace(place());
  if (coordinates) {
    controller_.emplace(s_.cluster, node_, tag);
    controller_->restore(book_->found(), now(), controller_out_);
  }
  s_.net.open(node_, incarnation_, *this);
  post(0ns, [this] {
    member_.introduce({"sim", s_.numerics, control::protocol, abi_version, incarnation_});
    if (!controller_) return;
    line_up_ = true;
    member_.on_coordinator_up(member_out_);
  });
  post(range{1ns, tick_every}.drawn(s_.random), [this] { tick(); });
}

daemon::~daemon() = default;

// --- input, one event after the other

void daemon::post(duration after, std::function<void()> what) {
  when_.in(after, [this, what = std::move(what)] {
    what();
    flush();
  });
}

// Keeps the order in which roles emitted their effects.
void daemon::from_roles(std::function<void()> what) {
  heard_until_ = std::max(heard_until_, s_.when.now() + range{1us, 200us}.drawn(s_.random));
  post(heard_until_ - s_.when.now(), std::move(what));
}

void daemon::keep(const range& takes, control::work<control::job_executor> what) {
  kept_until_ = std::max(kept_until_, s_.when.now()) + takes.drawn(s_.random);
  post(kept_until_ - s_.when.now(), [this, what = std::move(what)] {
    auto result = what(*executor_);
    if (!result) return;
    answered_until_ = std::max(answered_until_, s_.when.now() + range{1us, 500us}.drawn(s_.random));
    post(answered_until_ - s_.when.now(), [this, result = std::move(result)] { deliver(result); });
  });
}

void daemon::deliver(const control::delivery& d) {
  control::takers to{controller_ ? &*controller_ : nullptr, &member_, now(), &controller_out_, &member_out_, {}, {}, {}};
  to.roles_ended = [] { return std::uint64_t{0}; };
  to.saved = [this](const control::stored& x) {
    if (!x.error.empty()) watch_.on_log(node_, std::string("cannot save ") + name_of(x.what) + ": " + x.error);
  };
  to.log = [this](const std::string& line) { watch_.on_log(node_, line); };
  d(to);
}

range daemon::time_of(const control::write_state&) const {
  auto takes = s_.job_executor.store;
  takes.least = duration(static_cast<std::int64_t>(static_cast<double>(takes.least.count()) * slow_disk));
  takes.most = duration(static_cast<std::int64_t>(static_cast<double>(takes.most.count()) * slow_disk));
  return takes;
}

void daemon::on_up(plane p, const std::string& peer, std::uint64_t incarnation) {
  when_.now_or_later([=, this] { receive_up(p, peer, incarnation); });
}
void daemon::on_down(plane p, const std::string& peer, const std::string& reason) {
  when_.now_or_later([=, this] { receive_down(p, peer, reason); });
}
void daemon::on_cargo(plane p, const std::string& peer, cargo c) {
  if (!when_.stopped()) return handle(p, peer, std::move(c));
  when_.now_or_later([=, this, box = std::make_shared<cargo>(std::move(c))] { handle(p, peer, std::move(*box)); });
}

void daemon::receive_up(plane p, const std::string& peer, std::uint64_t incarnation) {
  if (p == plane::data) {
    member_.on_data_up(peer, incarnation, member_out_);
  } else if (controller_) {
    controller_->on_peer_up(peer, incarnation);
  } else if (peer == coordinator_) {
    line_up_ = true;
    member_.on_coordinator_up(member_out_);
  }
  flush();
}

void daemon::receive_down(plane p, const std::string& peer, const std::string& reason) {
  if (p == plane::data) {
    member_.on_data_down(peer, reason, member_out_);
  } else if (controller_) {
    controller_->on_peer_down(peer, reason, now(), controller_out_);
  } else if (peer == coordinator_ && std::exchange(line_up_, false)) {
    member_.on_coordinator_down(reason, member_out_);
  }
  flush();
}

void daemon::handle(plane p, const std::string& peer, cargo c) {
  if (p == plane::data) {
    roles_.receive(peer, std::get<envelope>(std::move(c)));
    return;
  }
  const auto m = std::get<control::message>(std::move(c));
  if (controller_)
    controller_->on(peer, m, now(), controller_out_);
  else if (peer == coordinator_)
    member_.on(m, now(), member_out_);
  flush();
  watch_.on_message(node_, peer, m);
}

void daemon::client_says(const std::string& client, control::message m) {
  when_.now_or_later([=, this] {
    if (controller_) controller_->on(client, m, now(), controller_out_);
    flush();
  });
}

void daemon::client_gone(const std::string& client) {
  if (controller_) controller_->on_peer_down(client, "gone", now(), controller_out_);
  flush();
}

std::string daemon::tell(command c) {
  if (when_.stopped()) return "the daemon is stopped";
  if (!controller_) return "this node is not the coordinator";
  const auto told = controller_->tell(0, c, now(), controller_out_);
  flush();
  return test::error_text(told);
}

void daemon::asks(const std::string& client, const std::string& line, std::function<void(repl_reply)> answer) {
  when_.now_or_later([=, this] {
    if (!controller_) return answer({repl_reply::kind::failed, "this node is not the coordinator", {}});
    if (published_at_ == time_point() || s_.when.now() - published_at_ >= tick_every)
      published_ = view(), published_at_ = s_.when.now();
    backend here(*this, client);
    answer(repl_session(here, false).run(line));
  });
}

repl_view daemon::view() const {
  repl_view v;
  if (controller_) controller_->fill(v, now());
  v.events = said_.last();
  return v;
}

void daemon::say(std::uint32_t job, const event_effect& e) {
  said_.put(control::number_of(job), e);
  watch_.on_said(e);
}

void daemon::drain() {
  if (std::exchange(draining_, true)) return;
  when_.now_or_later([this] {
    if (controller_)
      controller_->drain(now(), controller_out_);
    else
      member_.drain(member_out_);
    flush();
  });
}

void daemon::take_store(std::uint32_t job, const store_effect& e) {
  if (!controller_) return;
  if (e.what == store_effect::kind_of::handover) {
    request(control::keep_handover{job, e});
    return controller_->on_handover(job, e.step, now(), controller_out_);
  }
  const bool left_out = e.what == store_effect::kind_of::checkpoint && controller_->crowded(job);
  controller_->on_store_begun(job);
  request(control::write_state{job, e, left_out});
}

void daemon::tick() {
  if (controller_) controller_->on_tick(now(), controller_out_);
  member_.on_tick(now(), member_out_);
  const auto t = s_.when.now();
  if (!controller_ && !line_up_ && t - dialled_ >= redial_every) {
    dialled_ = t;
    s_.net.dial(plane::control, node_, coordinator_, dial_timeout);
  }
  if (t - reported_ >= report_every) {
    reported_ = t;
    report_state();
  }
  post(tick_every, [this] { tick(); });
}

void daemon::report_state() {
  control::report r;
  r.roles = roles_.published();
  if (controller_)
    controller_->on(node_, r, now(), controller_out_);
  else if (line_up_)
    s_.net.send(plane::control, node_, coordinator_, control::message(std::move(r)));
}

// --- output

void daemon::flush() {
  if (settling_) return;
  settling_ = true;
  while (!controller_out_.empty() || !member_out_.empty()) {
    for (const auto& x : std::exchange(controller_out_, {})) {
      watch_.on_order(x);
      std::visit([this](const auto& o) { perform(o); }, x);
    }
    for (const auto& x : std::exchange(member_out_, {})) std::visit([this](const auto& o) { perform(o); }, x);
  }
  settling_ = false;
  const bool idle = controller_ ? controller_->drained() && member_.idle() : member_.idle();
  if (draining_ && idle && !std::exchange(drained_, true)) watch_.on_drained(node_);
}

void daemon::perform(const control::to_peer& x) {
  if (const auto* b = std::get_if<control::swap>(&x.what); b && controller_) swapping_[b->job] = b->plan_generation;
  if (x.peer == node_) {
    const bool for_member = std::holds_alternative<control::joined>(x.what) || std::holds_alternative<control::prepare>(x.what) ||
                            std::holds_alternative<control::end_job>(x.what) || std::holds_alternative<control::revise>(x.what) ||
                            std::holds_alternative<control::swap>(x.what) || std::holds_alternative<control::forget>(x.what) ||
                            std::holds_alternative<control::inject>(x.what);
    if (for_member)
      member_.on(x.what, now(), member_out_);
    else if (controller_)
      controller_->on(x.peer, x.what, now(), controller_out_);
    return;
  }
  if (controller_ &&
      !std::any_of(s_.cluster.nodes.begin(), s_.cluster.nodes.end(), [&](const auto& n) { return n.name == x.peer; }))
    return watch_.on_client_message(x.peer, x.what);
  s_.net.send(plane::control, node_, x.peer, x.what);
}

void daemon::perform(const control::check_text& x) {
  checked_until_ = std::max(checked_until_, s_.when.now()) + s_.job_executor.plan.drawn(s_.random);
  post(checked_until_ - s_.when.now(), [this, what = control::work_of(x)] { deliver(what(*checker_)); });
}

void daemon::perform(const control::begin_job& x) {
  generations_[x.job] = swapping_[x.job];
  envelope e;
  e.h.job = x.job;
  e.h.dst = role_id{0};
  e.body = start{};
  roles_.deliver(std::move(e));
}

void daemon::perform(const control::journal_line& x) {
  if (const auto kept = book_->append(x.line); !kept) watch_.on_log(node_, kept.error().text);
}

void daemon::perform(const control::connect_data& x) { s_.net.dial(plane::data, node_, x.peer, dial_timeout); }

}  // namespace troupe::recovery
