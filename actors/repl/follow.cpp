// Commands that wait for an event of the job; command.hpp describes the protocol.
#include "actors/repl/command.hpp"

namespace troupe {
namespace {

using kind = repl_reply::kind;

bool is_over(const repl_view& v, std::uint32_t id) {
  const auto* j = find_job(v, id);
  return !j || j->over() || j->state == "queued";
}

repl_reply follow(const repl_request& r, const repl_following& f, std::uint32_t job, std::uint64_t from, std::uint64_t left) {
  const auto named = "job " + std::to_string(job);
  // The view may be newer than the event log. The job counts as over only when the log has reached
  // the view: then `events`, which is read after the view, contains all events of the job.
  const auto view = r.backend.view();
  const bool over = is_over(view, job) && r.backend.events().last() >= view.events;
  std::string lines;
  const auto events = r.backend.events().after(from, job);
  for (const auto& e : events) {
    if (!f.from_the_start) from = e.number;
    if (e.what.kind == not_reported && !f.endless) return r.fail(e.what.text);
    if (auto reply = f.handle_event(r, e, events)) {
      if (!f.endless) return std::move(*reply);
      lines += (lines.empty() ? "" : "\n") + reply->text;
      if (left > 0 && --left == 0) return {kind::ok, lines, {}};
    }
    if (e.what.kind != "done" && e.what.kind != "error" && e.what.kind != "preempted") continue;
    return f.endless ? repl_reply{kind::ok, lines, {}} : r.fail(named + " ended before it executed the command");
  }
  if (over) return f.endless ? repl_reply{kind::ok, lines, {}} : r.fail(named + " is not running");
  if (!f.endless && --left == 0) return r.fail(named + " has not executed the command yet; `waits` shows what it waits for");
  return repl_follow_from(f, job, from, left, std::move(lines));
}

}  // namespace

repl_reply repl_follow_from(const repl_following& f, std::uint32_t job, std::uint64_t from, std::uint64_t left, std::string text) {
  return {kind::ok, std::move(text),
          std::string("_follow ") + f.name + " " + std::to_string(job) + " " + std::to_string(from) + " " + std::to_string(left)};
}

repl_reply repl_follow(const repl_request& r) {
  std::uint32_t job = 0;
  std::uint64_t from = 0, left = 0;
  const auto* f = r.args.size() == 4 ? find_repl_following(r.args[0]) : nullptr;
  const bool good =
      f && repl_number(r.args[1], job) && repl_number(r.args[2], from) && repl_number(r.args[3], left) && (f->endless || left > 0);
  if (!good) return r.usage("usage: _follow NAME JOB EVENT LEFT (for programs)");
  return follow(r, *f, job, from, left);
}

repl_reply repl_tell_and_follow(const repl_request& r, const std::optional<std::uint32_t>& job, const std::string& error,
                                const command& c) {
  if (!job) return r.fail(error);
  const auto from = r.backend.events().last();
  const auto refused = r.backend.tell(*job, c);
  if (!refused.empty()) return r.fail(refused);
  const auto& f = *r.command->follow;
  return repl_follow_from(f, *job, from, f.patience);
}

repl_reply repl_tell(const repl_request& r) {
  const auto& name = r.command->help.name;
  if (r.args.size() > 1) return r.usage(name + ": expected at most one argument, the job number");
  std::string error;
  const auto job = repl_job_of(r.backend.view(), r.args, 0, error);
  return job ? repl_sent(r, *job, {name, {}, 0}) : r.fail(error);
}

repl_reply repl_tell_and_wait(const repl_request& r) {
  const auto& name = r.command->help.name;
  if (r.args.size() > 1) return r.usage(name + ": expected at most one argument, the job number");
  std::string error;
  const auto job = repl_job_of(r.backend.view(), r.args, 0, error);
  const command c{name, {}, 0, {}};
  auto reply = repl_tell_and_follow(r, job, error, c);
  if (reply.how == kind::ok) reply.text = repl_sent_text(r.json, *job, c);
  return reply;
}

std::string repl_text_of(const repl_event& e, const char* name) {
  for (const auto& [k, v] : e.texts)
    if (k == name) return v;
  return {};
}

bool repl_not_saved(const repl_event& e) { return e.what.kind == "alert" && e.what.text.starts_with(checkpoint_not_saved); }

repl_reply repl_sent(const repl_request& r, std::uint32_t job, const command& c) {
  const auto error = r.backend.tell(job, c);
  return error.empty() ? repl_reply{kind::ok, repl_sent_text(r.json, job, c), {}} : r.fail(error);
}

}  // namespace troupe
