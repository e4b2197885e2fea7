// Clients that send commands to a job in a fleet, and the law of commands: every command has
// exactly one outcome, at the client that sent it, and the outcome agrees with the job's state.
//
// The clients use the session of the REPL: they send a line, then the lines that the replies name,
// every 50 ms (actors/repl/command.hpp). The outcome of a command is the last reply, or the loss of
// the connection.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/cluster/view/job_progress.hpp"
#include "tests/recovery/storm.hpp"

namespace troupe::recovery {

// A command and its outcome.
struct sent_command {
  std::string client, line;
  command_id id = 0;                // 0: refused before it was sent to the job
  bool over = false, lost = false;  // lost: with the connection
  repl_reply reply = {};            // if it is over and not lost
};

class command_law {
 public:
  // Watches the fleet, which must outlive the calls.
  void watch(fleet& f) {
    f_ = &f;
    f.hears = [this](const event_effect& e) { hear(e); };
    f.restarted = [this] { restart(); };
  }
  // The fault may end connections of clients.
  bool may_lose = true;
  // The client sends the line now, or when its commands before have an outcome.
  void say(const std::string& client, const std::string& line) {
    auto& c = clients_[client];
    c.waiting.push_back(line);
    if (!c.busy) next(client);
  }
  // What is wrong when the run is over. Empty: nothing.
  std::string wrong() const {
    for (const auto& [name, c] : clients_)
      if (c.busy || !c.waiting.empty()) return name + ": no outcome of '" + sent_.at(c.at)->line + "'";
    for (const auto& c : sent_)
      if (auto why = disagreement(*c); !why.empty()) return c->client + ": '" + c->line + "' -> '" + c->reply.text + "': " + why;
    return {};
  }
  std::vector<std::shared_ptr<sent_command>> sent() const { return sent_; }

 private:
  struct sender {
    std::vector<std::string> waiting;
    bool busy = false;
    std::size_t at = 0;  // of sent_
  };
  // The event that answered a command, and the job right after it.
  struct outcome {
    event_effect event;
    repl_job job;
    std::set<std::string> used;  // nodes
  };
  enum class known : std::uint8_t { no, yes, unknown };

  void next(const std::string& name) {
    auto& c = clients_[name];
    c.busy = !c.waiting.empty();
    if (!c.busy) return;
    const auto line = c.waiting.front();
    c.waiting.erase(c.waiting.begin());
    c.at = sent_.size();
    sent_.push_back(std::make_shared<sent_command>(sent_command{name, line}));
    poll(sent_.back(), line);
  }

  void poll(const std::shared_ptr<sent_command>& c, const std::string& line) {
    f_->ask(c->client, line, [this, c](const std::optional<repl_reply>& r) {
      if (r && !r->next.empty()) {
        const auto words = words_of(r->next);
        c->id = std::stoull(words.at(5));
        return f_->when().in(repl_ask_every, [this, c, next = r->next] { poll(c, next); });
      }
      c->over = true;
      c->lost = !r;
      if (r) c->reply = *r;
      next(c->client);
    });
  }
  static std::vector<std::string> words_of(const std::string& line) {
    std::istringstream in(line);
    std::vector<std::string> words;
    for (std::string w; in >> w;) words.push_back(w);
    return words;
  }

  repl_job job_now() const {
    auto* d = f_->at(f_->coordinator());
    const auto v = d ? d->view() : repl_view();
    return v.jobs.empty() ? repl_job() : v.jobs.front();
  }

  void hear(const event_effect& e) {
    for (const auto id : e.answers) {
      outcome o{e, job_now(), {}};
      for (const auto& n : f_->at(f_->coordinator())->view().nodes)
        if (n.steps_at_risk) o.used.insert(n.name);
      if (!outcomes_.emplace(id, std::move(o)).second) f_->violated("a command has two outcomes");
    }
    if (job_now().state == job_state::stopping && paused_ == known::yes) paused_ = known::unknown;  // a stop ends the pause
    if (e.is<paused_event>()) paused_ = known::yes;
    if (e.is<resumed_event>() || (e.is<step_event>() && paused_ == known::unknown)) paused_ = known::no;
    if (e.is<step_event>() && paused_ == known::yes) f_->violated("a paused job has made step " + std::to_string(e.step));
    if (e.is<unchanged_event>()) check_unchanged(e);
    f_->when().in({}, [this] { check_state(); });
  }
  void check_unchanged(const event_effect& e) {
    const auto asked = [&](const std::string& line) {
      return std::any_of(sent_.begin(), sent_.end(), [&](const auto& c) { return c->line == line && !c->over && has(e, c->id); });
    };
    if (asked("pause") && paused_ == known::no) f_->violated("'paused already' of a job that is not");
    if (asked("resume") && paused_ == known::yes) f_->violated("'not paused' of a job that is");
  }
  static bool has(const event_effect& e, command_id id) {
    return std::find(e.answers.begin(), e.answers.end(), id) != e.answers.end();
  }
  void check_state() {
    if (f_->at(f_->coordinator()) == nullptr) return;
    const auto j = job_now();
    if (j.state != job_state::running && j.state != job_state::paused) return;
    const bool settled = j.doing == job_activity::none || j.doing == job_activity::moving || j.doing == job_activity::draining;
    if (!settled || paused_ == known::unknown) return;
    if ((j.state == job_state::paused) != (paused_ == known::yes))
      f_->violated(std::string("the job's state is ") + text_of(j.state) +
                   (paused_ == known::yes ? ", it was paused" : ", it was not"));
  }
  // A pause or resume without an outcome may have been noted or not.
  void restart() {
    const auto open = [&](const sent_command& c) {
      const bool refused = c.over && !c.lost && c.id == 0;
      return (c.line == "resume" || c.line == "pause") && !refused && !outcomes_.contains(c.id);
    };
    if (std::any_of(sent_.begin(), sent_.end(), [&](const auto& c) { return open(*c); })) paused_ = known::unknown;
  }

  std::string disagreement(const sent_command& c) const;

  fleet* f_ = nullptr;
  std::map<std::string, sender> clients_;
  std::vector<std::shared_ptr<sent_command>> sent_;
  std::map<command_id, outcome> outcomes_;
  known paused_ = known::no;
};

// What is wrong with the outcome. Empty: nothing.
inline std::string command_law::disagreement(const sent_command& c) const {
  if (c.lost) return may_lose ? "" : "the connection was lost without a fault of the coordinator's daemon";
  const bool ok = c.reply.how == repl_reply::kind::ok;
  if (c.reply.text.find("has not executed the command yet") != std::string::npos) return "no outcome in time";
  const auto at = outcomes_.find(c.id);
  if (at == outcomes_.end()) return ok ? "done, but no event says so" : "";
  const auto& [event, job, used] = at->second;
  const auto words = words_of(c.line);
  const auto& name = words.front();
  if (ends_job(event) && (name == "stop" || name == "kill")) {
    const bool done = event.is<done_event>();
    const bool kept = name == "kill" || !done || !event.as<done_event>()->stopped() || job.kept == event.step;
    if (!kept) return "the job has stopped at step " + std::to_string(event.step) + " without a checkpoint";
    return job.over() && (name == "kill" || ok == done) ? "" : "the job's end does not fit";
  }
  // The job may have ended by itself before.
  if (event.is<not_told_event>() && (name == "stop" || name == "kill")) return !ok || job.over() ? "" : "the job goes on";
  if (ends_job(event) || event.is<refused_event>() || event.is<not_told_event>() || event.is<checkpoint_lost_event>())
    return ok ? "not refused, but the event is" : "";
  const auto fits = [&] {
    if (name == "pause") return event.is<paused_event>() || event.is<unchanged_event>();
    if (name == "resume") return event.is<resumed_event>() || event.is<unchanged_event>();
    if (name == "set") return event.is<set_event>() && setting_of(job, words.at(1)).has_value() && !job.settings.empty();
    if (name == "mode") return event.is<mode_event>() && !job.mode.empty();
    if (name == "checkpoint") return event.is<checkpoint_event>() && job.kept >= event.step;
    if (name == "eval") return event.is<eval_event>() && job.evaluated >= event.step;
    if (name == "drain") return event.is<moved_event>() && !used.contains(words.at(1));
    return event.is<moved_event>();
  };
  if (!ok || !fits()) return std::string("the event is '") + name_of(event).name + "' in state " + text_of(job.state);
  return {};
}

// Draws a fault and commands of two clients around it.
class command_maker : public storm_maker {
 public:
  using storm_maker::storm_maker;

  // From the duration and the number of points of the undisturbed run.
  void draw_commands(storm& s, duration took, std::uint64_t points, command_law& law) {
    s_ = std::move(s);
    took_ = took;
    points_ = std::max<std::uint64_t>(points, 1);
    const auto at = 1 + below(points_);
    const auto fault = below(6);
    if (below(2) == 0) near_ = at + below(30);
    if (fault == 1) death();
    if (fault == 2) stop();
    if (fault == 3) coordinator_death();
    if (fault == 4) cuts();
    if (fault == 5) leave();
    law.may_lose = fault > 0;
    for (const char* client : {"client.a", "client.b"})
      for (auto n = 1 + below(3); n > 0; --n) command_of(client, at, law);
    const bool all_back = below(3) > 0;
    s_.plans.push_back([over = ms(15000 + below(20000)), all_back, &law](fleet& f) { settle(f, law, over, all_back); });
    s = std::move(s_);
  }

 private:
  void command_of(const std::string& client, std::uint64_t at, command_law& law) {
    const auto line = drawn_line();
    const auto send = [client, line, &law](fleet&) { law.say(client, line); };
    const auto point = below(3) == 0 ? 1 + below(points_ + 1) : at + below(30);
    const auto later = ms(below(2) == 0 ? 0 : below(8000));
    note(client + " at point " + std::to_string(point) + " + " + std::to_string(later.count()) + " ms: " + line);
    s_.plans.push_back([point, later, send](fleet& f) {
      f.after_point(point, [&f, later, send](const std::string&) { f.when().in(later, [&f, send] { send(f); }); });
    });
  }
  std::string drawn_line() {
    switch (below(12)) {
      case 0:
      case 1: return "pause";
      case 2:
      case 3: return "resume";
      case 4: return "set train.dynamics.lr 0.0" + std::to_string(1 + below(5));
      case 5: return "mode ssp staleness=" + std::to_string(1 + below(3));
      case 6: return "move loss0 " + any_node();
      case 7: return "drain " + any_node();
      case 8: return "add-node " + any_node();
      case 9: return "checkpoint";
      case 10: return "eval";
      default: return below(2) == 0 ? "stop" : "kill";
    }
  }
  static void settle(fleet& f, command_law& law, duration at, bool all_back) {
    f.when().in(at, [&f, &law, all_back] {
      mend(f, all_back);
      if (f.ended()) return;
      law.say("operator", "resume");
      settle(f, law, std::chrono::seconds(20), all_back);
    });
  }
};

struct commands_result {
  std::string wrong;  // empty: the law held
  std::vector<std::shared_ptr<sent_command>> sent;
  std::string end;  // of the job
};

inline commands_result run_commands(std::uint64_t seed) {
  command_maker maker(seed);
  auto s = maker.make();
  const auto calm = run_fleet(s.config);
  if (!calm.wrong.empty() || calm.kind != "done") return {"seed " + std::to_string(seed) + ", undisturbed: " + calm.wrong, {}, {}};
  command_law law;
  maker.draw_commands(s, calm.took, calm.points, law);
  const auto got = run_fleet(s.config, [&](fleet& f) {
    law.watch(f);
    for (const auto& p : s.plans) p(f);
  });
  commands_result r{got.wrong, law.sent(), got.kind};
  if (r.wrong.empty()) r.wrong = law.wrong();
  const bool killed = std::any_of(r.sent.begin(), r.sent.end(), [](const auto& c) { return c->line == "kill"; });
  if (r.wrong.empty() && got.kind == "error" && !named_end(got.text) && !killed) r.wrong = "an unexpected error: " + got.text;
  if (r.wrong.empty()) return r;
  for (const auto& c : r.sent) s.text += "\n  " + c->client + " " + c->line + " -> " + (c->lost ? "lost" : c->reply.text);
  r.wrong = "seed " + std::to_string(seed) + ", " + s.mode + ":" + s.text + "\n" + r.wrong;
  return r;
}

}  // namespace troupe::recovery
