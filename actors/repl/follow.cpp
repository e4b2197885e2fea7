// Commands that wait for an event of the job; command.hpp describes the protocol.
#include <algorithm>

#include "actors/repl/command.hpp"
#include "actors/repl/text.hpp"
#include "runtime/node/events/event_json.hpp"

namespace troupe {
namespace {

using kind = repl_reply::kind;

bool is_over(const repl_view& v, std::uint32_t id) {
  const auto* j = find_job(v, id);
  return !j || j->over() || j->state == job_state::queued;
}

// A command that was sent, and how far its client has read the events of its job.
struct followed {
  std::uint32_t job = 0;
  std::uint64_t from = 0, left = 0;  // number of the last event that was read; requests that remain
  command_id id = 0;
};

// The next line of a command that is followed.
repl_reply follow_on(const repl_following& f, const followed& c, const repl_arguments& words, std::string text = {}) {
  auto next = std::string("_follow ") + f.name + " " + std::to_string(c.job);
  for (const auto n : {c.from, c.left, c.id}) next += " " + std::to_string(n);
  for (const auto& w : words) next += " " + w;
  return {kind::ok, std::move(text), std::move(next)};
}

// The reply to the command if the event is its outcome. The last event of the job always is.
std::optional<repl_reply> outcome_of(const repl_request& r, const repl_following& f, command_id id, const repl_event& e,
                                     const std::vector<repl_event>& all) {
  const auto& answers = e.what.answers;
  const bool last = ends_job(e.what);
  if (!last && std::find(answers.begin(), answers.end(), id) == answers.end()) return std::nullopt;
  if (auto reply = f.handle_event(r, e, all)) return reply;
  std::string why = repl_named(e.job) + " ended before it executed the command";
  if (const auto* no = e.what.as<not_told_event>()) why = no->message;
  if (const auto* no = repl_refusal(e)) why = *no;
  return f.give_up ? f.give_up(r, why) : r.fail(why);
}

repl_reply follow(const repl_request& r, const repl_following& f, followed c) {
  auto& [job, from, left, id] = c;
  const auto give_up = [&](const std::string& why) { return f.give_up ? f.give_up(r, why) : r.fail(why); };
  // The view may be newer than the event log. The job counts as over only when the log has reached
  // the view: then `events`, which is read after the view, contains all events of the job.
  if (!r.backend.events().gave(id))
    return give_up("the daemon was restarted before it answered; `jobs` shows the state of " + repl_named(job));
  const auto view = r.backend.view();
  const bool over = is_over(view, job) && r.backend.events().last() >= view.events;
  const auto events = r.backend.events().after(from, job);
  for (const auto& e : events) {
    if (!f.from_the_start) from = e.number;
    if (auto reply = outcome_of(r, f, id, e, events)) return std::move(*reply);
  }
  if (over) return give_up(repl_named(job) + " is not running");
  if (--left == 0)
    return give_up(repl_named(job) + " has not executed the command yet, and will when it can; `waits` shows what it waits for");
  std::string notice;
  if (!r.json && f.patience - left == repl_notice)
    notice = "waiting for " + repl_named(job) + " (Ctrl-C ends the waiting, not the command)";
  return follow_on(f, c, {r.args.begin() + repl_follow_words, r.args.end()}, std::move(notice));
}

}  // namespace

repl_reply repl_follow(const repl_request& r) {
  followed c;
  const auto* f = r.args.size() >= repl_follow_words ? find_repl_following(r.args[0]) : nullptr;
  const bool good = f && repl_number(r.args[1], c.job) && repl_number(r.args[2], c.from) && repl_number(r.args[3], c.left) &&
                    repl_number(r.args[4], c.id) && c.left > 0;
  if (!good) return r.usage("usage: _follow NAME JOB EVENT LEFT COMMAND (for programs)");
  return follow(r, *f, c);
}

repl_reply repl_tell_and_follow(const repl_request& r, const expected<std::uint32_t>& job, const command& c,
                                const repl_arguments& words) {
  if (!job) return r.fail(job.error().text);
  const auto from = r.backend.events().last();
  const auto told = r.backend.tell(*job, c);
  if (!told) return r.fail(told.error().text);
  const auto& f = *r.command->follow;
  return follow_on(f, {*job, from, f.patience, *told}, words);
}

repl_reply repl_tell_and_wait(const repl_request& r, const command& c) {
  const auto& name = r.command->help.name;
  if (r.args.size() > 1) return r.usage(name + ": expected at most one argument, the job number");
  const auto job = repl_job_of(r.backend.view(), r.args, 0);
  return repl_tell_and_follow(r, job, c);
}

std::string repl_named(std::uint32_t job) { return "job " + std::to_string(job); }

const std::string* repl_refusal(const repl_event& e) {
  const auto* refused = e.what.as<refused_event>();
  return refused ? &refused->message : nullptr;
}

repl_reply repl_outcome(const repl_request& r, const repl_event& e, const std::string& text, const nlohmann::ordered_json& more) {
  if (!r.json) return {kind::ok, text, {}};
  auto o = event_object(e.what, event_form::session);
  o["job"] = e.job;
  o.update(more);
  return {kind::ok, repl_text::line_of(o), {}};
}

}  // namespace troupe
