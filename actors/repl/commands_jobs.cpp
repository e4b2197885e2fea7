// Commands that start, pause and end jobs: submit, pause, resume, stop.
#include <algorithm>

#include "actors/repl/command.hpp"
#include "runtime/base/wording.hpp"

namespace troupe {
namespace {

using kind = repl_reply::kind;

repl_reply run_submit(const repl_request& r) {
  if (r.args.empty()) return r.usage("usage: submit FILE [key=value...]");
  if (!r.text)
    return r.usage("submit: the text of " + in_quotes(r.args[0]) + " is missing: the client must read the file and send its text");
  const repl_submission s{r.args[0], *r.text, {r.args.begin() + 1, r.args.end()}};
  std::uint32_t job = 0;
  const auto error = r.backend.submit(s, job);
  if (!error.empty()) return submitted_reply(r.json, 0, {error});
  if (job == 0) return {kind::later, {}, {}};
  return submitted_reply(r.json, job, {});
}

repl_reply run_stop(const repl_request& r) {
  std::string error;
  const auto view = r.backend.view();
  const auto job = repl_job_of(view, r.args, 0, error);
  auto reply = repl_tell_and_wait(r);
  // A queued job only leaves the queue: there is no checkpoint to wait for.
  if (job && std::any_of(view.jobs.begin(), view.jobs.end(), [&](const auto& j) { return j.id == *job && j.state == "queued"; }))
    reply.next.clear();
  return reply;
}

// Replies when the job has ended. Fails if it ended with an error, or if a checkpoint or its
// weights could not be saved.
std::optional<repl_reply> hear_end(const repl_request& r, const repl_event& end, const std::vector<repl_event>& said) {
  if (end.what.kind == "error" || end.what.kind == "preempted") return r.fail(end.what.text);
  if (end.what.kind != "done") return std::nullopt;
  std::string unsaved, file;
  const auto add = [&](const std::string& text) {
    if (unsaved.find(text) == std::string::npos) unsaved += (unsaved.empty() ? "" : "\n") + text;
  };
  for (const auto& e : said) {
    if (repl_not_saved(e)) add(e.what.text);
    if (e.what.kind == "checkpoint") file = repl_text_of(e, "file");
  }
  for (const auto& [k, v] : end.texts)
    if (k == "alert") add(v);
  if (!unsaved.empty()) return r.fail(unsaved);
  if (r.json) return repl_reply{kind::ok, to_json({0, end.what, end.texts}), {}};
  return repl_reply{kind::ok,
                    "job " + std::to_string(end.job) + (end.what.text == "stopped" ? " stopped" : " done") + " at step " +
                        std::to_string(end.what.step) + (file.empty() ? "" : ", checkpoint in " + file),
                    {}};
}

// Reads all events since the command, because the reply includes earlier alerts and the
// checkpoint's file.
constexpr repl_following to_its_end = {
    .name = "stop", .handle_event = hear_end, .patience = repl_long_patience, .from_the_start = true};

}  // namespace

std::vector<repl_command> repl_commands_to_jobs() {
  return {
      {.help = {"submit", "FILE [key=value...]", "check a job file and queue the job"},
       .run = run_submit,
       .takes_file = true,
       .needs = right::run_jobs},
      {.help = {"pause", "[JOB]", "pause the job at a step boundary"},
       .run = repl_tell,
       .completes = {repl_choice::jobs},
       .needs = right::run_jobs},
      {.help = {"resume", "[JOB]", "resume a paused job"},
       .run = repl_tell,
       .completes = {repl_choice::jobs},
       .needs = right::run_jobs},
      {.help = {"stop", "[JOB]", "stop the job at a step boundary, with a checkpoint; remove a queued job from the queue"},
       .run = run_stop,
       .follow = &to_its_end,
       .completes = {repl_choice::jobs},
       .needs = right::run_jobs},
  };
}

}  // namespace troupe
