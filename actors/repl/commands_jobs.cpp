// Commands that say when a job runs: submit, pause, resume, stop.
#include <algorithm>

#include "actors/repl/command.hpp"
#include "runtime/base/wording.hpp"

namespace troupe {
namespace {

using kind = repl_reply::kind;

repl_reply run_submit(const repl_request& r) {
  if (r.args.empty()) return r.usage("submit FILE [key=value...]");
  if (!r.text)
    return r.usage("submit: the text of " + in_quotes(r.args[0]) +
                   " is missing: it comes with the line, and no file is opened here");
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
  // One that waits goes out of the queue, and there is nothing of it to store.
  if (job && std::any_of(view.jobs.begin(), view.jobs.end(), [&](const auto& j) { return j.id == *job && j.state == "queued"; }))
    reply.next.clear();
  return reply;
}

// The job's end, with whatever of it could not be stored.
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

// How a job ended is told with what it said on the way there.
constexpr repl_following to_its_end = {
    .name = "stop", .handle_event = hear_end, .patience = repl_long_patience, .from_the_start = true};

}  // namespace

std::vector<repl_command> repl_commands_to_jobs() {
  return {
      {.help = {"submit", "FILE [key=value...]", "checks the job file and puts it into the queue"},
       .run = run_submit,
       .takes_file = true,
       .needs = right::run_jobs},
      {.help = {"pause", "[JOB]", "holds the job at a step boundary"},
       .run = repl_tell,
       .completes = {repl_choice::jobs},
       .needs = right::run_jobs},
      {.help = {"resume", "[JOB]", "goes on"}, .run = repl_tell, .completes = {repl_choice::jobs}, .needs = right::run_jobs},
      {.help = {"stop", "[JOB]", "ends the job at a step boundary, with a checkpoint; takes a waiting job out of the queue"},
       .run = run_stop,
       .follow = &to_its_end,
       .completes = {repl_choice::jobs},
       .needs = right::run_jobs},
  };
}

}  // namespace troupe
