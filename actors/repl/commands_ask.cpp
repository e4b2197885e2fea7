// Commands that request data or an action of a job: staleness, watch, layer, checkpoint, eval.
#include "actors/repl/command.hpp"
#include "runtime/base/wording.hpp"

namespace troupe {
namespace {

using kind = repl_reply::kind;

std::optional<repl_reply> hear_staleness(const repl_request& r, const repl_event& e, const std::vector<repl_event>&) {
  if (e.what.kind != "staleness") return std::nullopt;
  return repl_reply{kind::ok, repl_staleness_text(r.json, e.what), {}};
}
constexpr repl_following to_the_staleness = {.name = "staleness", .handle_event = hear_staleness};

repl_reply run_staleness(const repl_request& r) {
  if (r.args.size() > 1) return r.usage("usage: staleness [JOB]");
  std::string error;
  const auto job = repl_job_of(r.backend.view(), r.args, 0, error);
  return repl_tell_and_follow(r, job, error, {"staleness", {}, 0, {}});
}

std::optional<repl_reply> hear_step(const repl_request& r, const repl_event& e, const std::vector<repl_event>&) {
  if (e.what.kind != "step") return std::nullopt;
  return repl_reply{kind::ok, r.json ? repl_event_json(e.what) : repl_step_text(e.what), {}};
}
constexpr repl_following to_every_loss = {.name = "loss", .handle_event = hear_step, .endless = true};

repl_reply run_watch(const repl_request& r) {
  std::uint64_t lines = 0;
  const bool good = !r.args.empty() && r.args.size() <= 3 && r.args[0] == "loss" &&
                    (r.args.size() < 2 || (repl_number(r.args[1], lines) && lines > 0));
  if (!good) return r.usage("usage: watch loss [LINES] [JOB]");
  std::string error;
  const auto job = repl_job_of(r.backend.view(), r.args, 2, error);
  return job ? repl_follow_from(to_every_loss, *job, r.backend.events().last(), lines) : r.fail(error);
}

std::vector<std::string> what_to_watch(const repl_typed&) { return {"loss"}; }

repl_reply run_layer(const repl_request& r) {
  if (r.args.size() > 2) return r.usage("usage: layer [NAME] [JOB]");
  std::string error;
  const auto v = r.backend.view();
  const auto job = repl_job_of(v, r.args, 1, error);
  if (!job) return r.fail(error);
  const auto* j = find_job(v, *job);
  if (!j || !j->about) return r.fail("the layers of job " + std::to_string(*job) + " are not available on this node");
  if (r.args.empty()) return {kind::ok, repl_layers_text(r.json, *j->about), {}};
  std::vector<std::string> names;
  for (const auto& l : j->about->layers) {
    if (l.name == r.args[0]) return {kind::ok, repl_layer_text(r.json, l), {}};
    names.push_back(l.name);
  }
  return r.usage("no layer " + in_quotes(r.args[0]) + did_you_mean(r.args[0], names));
}

std::optional<repl_reply> hear_checkpoint(const repl_request& r, const repl_event& e, const std::vector<repl_event>&) {
  if (repl_not_saved(e)) return r.fail(e.what.text);
  if (e.what.kind != "checkpoint") return std::nullopt;
  const auto file = repl_text_of(e, "file");
  return repl_reply{kind::ok,
                    r.json ? to_json({0, e.what, e.texts})
                           : "checkpoint of step " + std::to_string(e.what.step) + (file.empty() ? "" : " in " + file),
                    {}};
}
constexpr repl_following to_the_checkpoint = {
    .name = "checkpoint", .handle_event = hear_checkpoint, .patience = repl_long_patience};

}  // namespace

std::vector<repl_command> repl_commands_that_ask() {
  using namespace repl_choice;
  return {
      {.help = {"staleness", "[JOB]", "show the age, in clocks, of the weights that steps have used, by parameter"},
       .run = run_staleness,
       .follow = &to_the_staleness,
       .completes = {jobs},
       .needs = right::look},
      {.help = {"watch", "loss [LINES] [JOB]",
                "print the loss of each step, for LINES steps or (at a terminal) until a line is typed"},
       .run = run_watch,
       .follow = &to_every_loss,
       .completes = {what_to_watch, nullptr, jobs},
       .needs = right::look},
      {.help = {"layer", "[NAME] [JOB]", "show a layer's type, shapes, parameters and multipliers; without NAME, list all layers"},
       .run = run_layer,
       .completes = {layers, jobs},
       .needs = right::look},
      {.help = {"checkpoint", "[JOB]", "write a checkpoint at the next step boundary and print its file"},
       .run = repl_tell_and_wait,
       .follow = &to_the_checkpoint,
       .completes = {jobs},
       .needs = right::run_jobs},
      {.help = {"eval", "[JOB]", "evaluate at the next step boundary"},
       .run = repl_tell,
       .completes = {jobs},
       .needs = right::run_jobs},
  };
}

}  // namespace troupe
