// Commands that start, pause and end jobs: submit, pause, resume, stop, kill.
#include <algorithm>

#include "actors/repl/command.hpp"
#include "actors/repl/text.hpp"
#include "runtime/base/wording.hpp"

namespace troupe {
namespace {

using kind = repl_reply::kind;

repl_reply run_submit(const repl_request& r) {
  if (r.args.empty()) return r.usage("usage: submit FILE [key=value...]");
  if (!r.text)
    return r.usage("submit: the text of " + in_quotes(r.args[0]) + " is missing: the client must read the file and send its text");
  const repl_submission s{r.args[0], *r.text, {r.args.begin() + 1, r.args.end()}};
  const auto job = r.backend.submit(s);
  if (!job) return submitted_reply(r.json, 0, {job.error().text});
  if (*job == 0) return {kind::later, {}, {}};
  return submitted_reply(r.json, *job, {});
}

// --- pause, resume

// The reply of a command that finds the job as it is to be.
repl_reply unchanged(const repl_request& r, const repl_event& e, const char* command, const char* state, const std::string& text) {
  if (!r.json) return {kind::ok, repl_named(e.job) + " " + text + ", at step " + std::to_string(e.what.step), {}};
  return {kind::ok, repl_text::line_of({{"command", command}, {"job", e.job}, {"state", state}, {"step", e.what.step}}), {}};
}

std::optional<repl_reply> hear_pause(const repl_request& r, const repl_event& e, const std::vector<repl_event>&) {
  if (e.what.is<unchanged_event>()) return unchanged(r, e, "pause", "paused", "is paused already");
  if (!e.what.is<paused_event>()) return std::nullopt;
  return repl_outcome(r, e, repl_named(e.job) + " paused at step " + std::to_string(e.what.step));
}
constexpr repl_following to_the_pause = {.name = "pause", .handle_event = hear_pause, .patience = repl_long_patience};

std::optional<repl_reply> hear_resume(const repl_request& r, const repl_event& e, const std::vector<repl_event>&) {
  if (e.what.is<unchanged_event>()) return unchanged(r, e, "resume", "running", "is not paused");
  if (!e.what.is<resumed_event>()) return std::nullopt;
  return repl_outcome(r, e, repl_named(e.job) + " resumed at step " + std::to_string(e.what.step));
}
constexpr repl_following to_the_resume = {.name = "resume", .handle_event = hear_resume};

// --- stop, kill

// Replies when the job has ended. Fails if it ended with an error, if it stopped and its checkpoint
// could not be saved, or if its weights could not be saved.
std::optional<repl_reply> hear_end(const repl_request& r, const repl_event& end, const std::vector<repl_event>& said) {
  if (!ends_job(end.what)) return std::nullopt;
  const auto* done = end.what.as<done_event>();
  if (!done) return r.fail(message_of(end.what));
  std::string unsaved, file;
  const auto add = [&](const std::string& text) {
    if (unsaved.find(text) == std::string::npos) unsaved += (unsaved.empty() ? "" : "\n") + text;
  };
  for (const auto& e : said) {
    if (const auto* lost = e.what.as<checkpoint_lost_event>(); lost && done->stopped()) add(lost->message);
    if (const auto* c = e.what.as<checkpoint_event>()) {
      file = c->file;
      unsaved.clear();  // an earlier one was not saved
    }
  }
  for (const auto& text : done->alerts) add(text);
  if (!unsaved.empty()) return r.fail(unsaved);
  const auto* state = done->stopped() ? "stopped" : "done";
  auto more = repl_text::json_object{{"state", state}};
  more["step"] = end.what.step;
  if (!file.empty()) more["file"] = file;
  return repl_outcome(r, end,
                      repl_named(end.job) + " " + state + " at step " + std::to_string(end.what.step) +
                          (file.empty() ? "" : ", checkpoint in " + file),
                      more);
}

// Reads all events since the command, because the reply includes earlier alerts and the
// checkpoint's file.
constexpr repl_following to_its_end = {
    .name = "stop", .handle_event = hear_end, .patience = repl_long_patience, .from_the_start = true};

// A queued job only leaves the queue: no event follows.
repl_reply removed_from_queue(const repl_request& r, std::uint32_t job) {
  return {kind::ok,
          r.json ? repl_text::line_of({{"command", r.command->help.name}, {"job", job}, {"was", "queued"}})
                 : repl_named(job) + " removed from the queue, it had not started",
          {}};
}

template <class Command>
repl_reply run_end(const repl_request& r) {
  const auto view = r.backend.view();
  const auto job = repl_job_of(view, r.args, 0);
  const auto reply = repl_tell_and_wait(r, {Command{}});
  const auto* j = job ? find_job(view, *job) : nullptr;
  return reply.how == kind::ok && j && j->state == job_state::queued ? removed_from_queue(r, *job) : reply;
}

std::optional<repl_reply> hear_kill(const repl_request& r, const repl_event& e, const std::vector<repl_event>&) {
  if (!ends_job(e.what)) return std::nullopt;
  const bool killed = e.what.is<error_event>();
  return repl_outcome(r, e,
                      repl_named(e.job) + (killed ? " killed at step " : " had ended already, at step ") +
                          std::to_string(e.what.step) + (killed ? ", without a checkpoint" : ""));
}
constexpr repl_following to_the_kill = {.name = "kill", .handle_event = hear_kill};

}  // namespace

std::vector<repl_command> repl_commands_to_jobs() {
  using namespace repl_choice;
  return {
      {.help = {"submit",
                "FILE [key=value...]",
                "check a job file and queue the job",
                {{"FILE", "a job file on this machine"},
                 {"key=value", "replaces a value of the file; the value is written as in the file (TOML), also with quotes"}},
                {{"submit lenet.toml", "queues the job of the file"},
                 {"submit lenet.toml train.finish.steps=500 plugins=[\"libswish.so\"]", "with two other values"}}},
       .run = run_submit,
       .completes = {nullptr},
       .completes_rest = job_keys,
       .takes_file = true,
       .needs = right::run_jobs},
      {.help = {"pause",
                "[JOB]",
                "pause the job at a step boundary, and print the step",
                {repl_job_argument()},
                {{"pause", "pauses the running job"}, {"pause 3", "pauses job 3"}}},
       .run = [](const repl_request& r) { return repl_tell_and_wait(r, {pause_command{}}); },
       .follow = &to_the_pause,
       .completes = {jobs},
       .needs = right::run_jobs},
      {.help = {"resume", "[JOB]", "resume a paused job", {repl_job_argument()}, {{"resume", "resumes the paused job"}}},
       .run = [](const repl_request& r) { return repl_tell_and_wait(r, {resume_command{}}); },
       .follow = &to_the_resume,
       .completes = {jobs},
       .needs = right::run_jobs},
      {.help = {"stop",
                "[JOB]",
                "stop the job at a step boundary, with a checkpoint; remove a queued job from the queue. `kill` does not wait for "
                "the boundary and writes no checkpoint",
                {repl_job_argument()},
                {{"stop", "stops the running job, and prints the step and the file of the checkpoint"}}},
       .run = run_end<stop_command>,
       .follow = &to_its_end,
       .completes = {jobs},
       .needs = right::run_jobs},
      {.help = {"kill",
                "[JOB]",
                "end the job at once, in any state (queued, preparing, running, paused, hung), without a checkpoint; its state is "
                "then failed. `stop` ends it with a checkpoint",
                {repl_job_argument()},
                {{"kill", "ends the running job"}, {"kill 3", "ends job 3"}}},
       .run = run_end<kill_command>,
       .follow = &to_the_kill,
       .completes = {jobs},
       .needs = right::run_jobs},
  };
}

}  // namespace troupe
