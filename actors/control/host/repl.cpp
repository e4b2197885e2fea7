// The REPL actor of a daemon. Detached, so that it never waits for a core that trains. It answers
// from published state. Lines that only the coordinator's daemon can answer (jobs, nodes) are
// forwarded there with a deadline, and the answer is sent to the client.
#include <algorithm>
#include <array>

#include "actors/control/frames.hpp"
#include "actors/control/host/actors.hpp"
#include "actors/shell/usual_step_of.hpp"
#include "runtime/cluster/answer_pieces.hpp"
#include "runtime/cluster/view/ended_jobs.hpp"
#include "runtime/cluster/view/injection.hpp"
#include "runtime/cluster/view/job_progress.hpp"
#include "runtime/cluster/view/view.hpp"

namespace troupe::control {
namespace {

using namespace std::chrono_literals;
constexpr auto relay_timeout = 5s;
constexpr auto relay_submit_timeout = 65s;  // the checker opens the job's data
constexpr std::size_t max_relays = 1024;

struct look_after_relays {};

class daemon_backend final : public repl_backend {
 public:
  daemon_backend(shared& s, person who) : s_(s), who_(std::move(who)) {}

  repl_view view() const override {
    auto v = s_.published.get();
    for (auto& r : s_.host->published()) v.roles.push_back({s_.options.node, std::move(r)});
    v.gpus = shown(s_.gpus->latest());
    v.memory = resident_memory();
    v.dropped = s_.host->counts();
    const auto frames = s_.route.counts();
    v.dropped.unknown_job += frames.unknown_job;
    v.unreadable = frames.unreadable;
    v.wrong_source = frames.wrong_source;
    v.may_inject = s_.options.may_inject;
    settle_ended_jobs(v);
    return v;
  }
  const repl_events& events() const override { return s_.said; }
  std::optional<double> usual_step() const override { return usual_step_of(*s_.host); }
  expected<void> check(right what, const std::string& doing) const override { return check_right(who_, what, doing); }
  expected<void> check_read(job_route by, std::uint32_t job) const override {
    for (const auto& j : s_.published.get().jobs)
      if (j.id == job) return troupe::check_read(who_, by, job, j.owner);
    return troupe::check_read(who_, by, job);
  }
  // Refuses at once by the published state; the control actor checks again.
  expected<command_id> tell(std::uint32_t job, command c) override {
    for (const auto& j : s_.published.get().jobs)
      if (j.id == job)
        if (auto fine = check_command(who_, j.id, j.owner, c); !fine) return unexpected(std::move(fine).error());
    const auto id = c.id = s_.said.next_command();
    s_.control.post(control_note{tell_in{job, std::move(c), who_}});
    return id;
  }
  expected<std::uint32_t> submit(const repl_submission& what) override {
    submission = job_text{what.file, what.text, what.overrides};
    return 0;
  }
  expected<void> inject(const injection& i) override {
    if (auto fine = check_injection(who_, s_.options.may_inject, s_.options.cluster, i); !fine) return fine;
    for (const auto& n : s_.published.get().nodes)
      if (n.name == i.node && n.state != "up" && n.state != "leaving")
        return unexpected(error("inject: node " + n.name + " is " + n.state));
    s_.control.post(control_note{inject_in{i, who_}});
    return {};
  }

  expected<std::optional<std::string>> measure(const repl_measurement& what) override {
    if (auto fine = check_right(who_, right::run_jobs, "measure a node"); !fine) return unexpected(std::move(fine).error());
    return s_.measurements.result(what.ticket, [&s = s_, what] { return measured_by(s, what); });
  }

  std::optional<job_text> submission;

 private:
  shared& s_;
  const person who_;
};

}  // namespace
}  // namespace troupe::control

TROUPE_LOCAL_MESSAGE(troupe::control::look_after_relays)

namespace troupe::control {
namespace {

class repl_actor final : public compat::base_actor {
 public:
  repl_actor(caf::actor_config& c, shared& s) : compat::base_actor(c), s_(s) { compat::ignore_unknown(*this); }
  const char* name() const override { return "repl"; }
  caf::behavior make_behavior() override {
    return {
        [this](const ask_in& a) { guarded(a); },
        [this](const probe&) { s_.answer_probe(watched_actor::repl); },
        [this](const answer_in& a) { relayed(a.what); },
        [this](const look_in& l) { s_.control_net->send(l.peer, to_frame(answer_to(s_, l.what, l.who))); },
        [this](const coordinator_gone&) { give_up([](const relay&) { return true; }, "was lost"); },
        [this](const look_after_relays&) {
          const auto now = std::chrono::steady_clock::now();
          give_up([&](const relay& r) { return now >= r.deadline; }, "did not answer in time");
          watching_ = !relays_.empty();
          if (watching_) compat::post_after(caf::actor{this}, 500ms, look_after_relays{});
        },
    };
  }

 private:
  struct relay {
    std::string peer;
    std::uint64_t id = 0;
    instant deadline{};
  };

  void guarded(const ask_in& a) {
    if (a.what.line.size() > longest_line)
      return reply(a.peer, a.what.id,
                   {repl_reply::kind::usage, "the line has " + std::to_string(a.what.line.size()) + " bytes; at most " +
                                                 std::to_string(longest_line) + " are allowed"});
    try {
      if (here(a.what.line))
        run(a);
      else
        pass_on(a);
    } catch (const std::exception& e) {
      reply(a.peer, a.what.id, {repl_reply::kind::failed, e.what()});
    }
  }

  // Returns true if this node can answer the line itself.
  bool here(const std::string& line) const {
    static constexpr std::array<std::string_view, 9> local = {"status", "roles", "queues",   "waits", "help",
                                                              "?",      "quit",  "_machine", "_link"};
    const auto word = line.substr(0, line.find(' '));
    return s_.coordinates() || std::find(local.begin(), local.end(), word) != local.end();
  }

  void run(const ask_in& a) {
    daemon_backend backend(s_, a.who);
    const auto r = s_.options.answers.line(backend, a.what.json, a.what.line, a.what.text.empty() ? nullptr : &a.what.text);
    if (r.how != repl_reply::kind::later) return reply(a.peer, a.what.id, r);
    s_.control.post(control_note{submit_in{a.peer, a.who.name, a.what.id, a.what.json, std::move(*backend.submission)}});
  }

  void pass_on(const ask_in& a) {
    if (relays_.size() >= max_relays)
      return reply(a.peer, a.what.id,
                   {repl_reply::kind::failed, std::to_string(max_relays) + " other requests wait for " + s_.coordinator});
    ask on = a.what;
    on.id = ++asked_;
    on.whose = a.who.name;
    on.role = static_cast<std::uint8_t>(a.who.role);
    if (const auto bytes = encode(on).size(); bytes > max_message)
      return reply(a.peer, a.what.id,
                   {repl_reply::kind::usage, "the request has " + std::to_string(bytes) + " bytes; at most " +
                                                 std::to_string(max_message) + " are allowed"});
    if (!s_.control_net->send(s_.coordinator, to_frame(on)))
      return reply(a.peer, a.what.id,
                   {repl_reply::kind::failed, "the coordinator's daemon " + s_.coordinator + " is not reachable"});
    const auto within = a.what.text.empty() ? relay_timeout : relay_submit_timeout;
    relays_[on.id] = {a.peer, a.what.id, std::chrono::steady_clock::now() + within};
    if (!std::exchange(watching_, true)) compat::post_after(caf::actor{this}, 500ms, look_after_relays{});
  }

  void relayed(const answer& a) {
    const auto found = relays_.find(a.id);
    if (found == relays_.end()) return;
    const auto& r = found->second;
    s_.control_net->send(r.peer, to_frame(answer{r.id, a.how, a.text, a.next, a.more}));
    if (!a.more) relays_.erase(found);
  }

  template <class Which>
  void give_up(Which which, const char* what) {
    for (auto at = relays_.begin(); at != relays_.end();) {
      if (!which(at->second)) {
        ++at;
        continue;
      }
      reply(at->second.peer, at->second.id, {repl_reply::kind::failed, "the coordinator's daemon " + s_.coordinator + " " + what});
      at = relays_.erase(at);
    }
  }

  void reply(const std::string& peer, std::uint64_t id, const repl_reply& r) { send_answer(s_, peer, id, r); }

  shared& s_;
  std::map<std::uint64_t, relay> relays_;
  std::uint64_t asked_ = 0;
  bool watching_ = false;
};

}  // namespace

void send_answer(const shared& s, const std::string& peer, std::uint64_t id, const repl_reply& r) {
  static_assert(longest_answer <= max_queued_for_operator / 2, "an answer must not end the connection of its client");
  for (const auto& piece : in_pieces({id, static_cast<std::uint8_t>(r.how), r.text, r.next}))
    s.control_net->send(peer, to_frame(piece));
}

std::unique_ptr<repl_backend> make_backend(shared& s, person who) { return std::make_unique<daemon_backend>(s, std::move(who)); }

caf::actor spawn_repl(caf::actor_system& system, shared& s) { return system.spawn<repl_actor, caf::detached>(s); }

}  // namespace troupe::control
