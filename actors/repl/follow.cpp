// Commands that wait for an event of the job; command.hpp describes the protocol.
#include "actors/repl/command.hpp"
#include "actors/repl/text.hpp"
#include "runtime/node/events/event_json.hpp"

namespace troupe {
namespace {

using kind = repl_reply::kind;

bool is_over(const repl_view& v, std::uint32_t id) {
  const auto* j = find_job(v, id);
  return !j || j->over() || j->state == "queued";
}

// The next line of a command that is followed.
repl_reply follow_on(const repl_following& f, std::uint32_t job, std::uint64_t from, std::uint64_t left,
                     const repl_arguments& words, std::string text = {}) {
  auto next =
      std::string("_follow ") + f.name + " " + std::to_string(job) + " " + std::to_string(from) + " " + std::to_string(left);
  for (const auto& w : words) next += " " + w;
  return {kind::ok, std::move(text), std::move(next)};
}

repl_reply follow(const repl_request& r, const repl_following& f, std::uint32_t job, std::uint64_t from, std::uint64_t left) {
  const auto give_up = [&](const std::string& why) { return f.give_up ? f.give_up(r, why) : r.fail(why); };
  // The view may be newer than the event log. The job counts as over only when the log has reached
  // the view: then `events`, which is read after the view, contains all events of the job.
  const auto view = r.backend.view();
  const bool over = is_over(view, job) && r.backend.events().last() >= view.events;
  const auto events = r.backend.events().after(from, job);
  for (const auto& e : events) {
    if (!f.from_the_start) from = e.number;
    if (const auto* no = e.what.as<not_told_event>()) return give_up(no->message);
    if (auto reply = f.handle_event(r, e, events)) return std::move(*reply);
    if (ends_job(e.what)) return give_up(repl_named(job) + " ended before it executed the command");
  }
  if (over) return give_up(repl_named(job) + " is not running");
  if (--left == 0)
    return give_up(repl_named(job) + " has not executed the command yet, and will when it can; `waits` shows what it waits for");
  std::string notice;
  if (!r.json && f.patience - left == repl_notice)
    notice = "waiting for " + repl_named(job) + " (Ctrl-C ends the waiting, not the command)";
  return follow_on(f, job, from, left, {r.args.begin() + repl_follow_words, r.args.end()}, std::move(notice));
}

}  // namespace

repl_reply repl_follow(const repl_request& r) {
  std::uint32_t job = 0;
  std::uint64_t from = 0, left = 0;
  const auto* f = r.args.size() >= repl_follow_words ? find_repl_following(r.args[0]) : nullptr;
  const bool good = f && repl_number(r.args[1], job) && repl_number(r.args[2], from) && repl_number(r.args[3], left) && left > 0;
  if (!good) return r.usage("usage: _follow NAME JOB EVENT LEFT (for programs)");
  return follow(r, *f, job, from, left);
}

repl_reply repl_tell_and_follow(const repl_request& r, const expected<std::uint32_t>& job, const command& c,
                                const repl_arguments& words) {
  if (!job) return r.fail(job.error().text);
  const auto from = r.backend.events().last();
  if (const auto told = r.backend.tell(*job, c); !told) return r.fail(told.error().text);
  const auto& f = *r.command->follow;
  return follow_on(f, *job, from, f.patience, words);
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
