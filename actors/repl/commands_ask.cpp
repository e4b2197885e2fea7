// Commands that request data or an action of a job: staleness, layer, checkpoint, eval.
#include "actors/repl/command.hpp"
#include "actors/repl/text.hpp"
#include "runtime/base/wording.hpp"
#include "runtime/node/events/event_json.hpp"

namespace troupe {
namespace {

using kind = repl_reply::kind;

std::optional<repl_reply> hear_staleness(const repl_request& r, const repl_event& e, const std::vector<repl_event>&) {
  const auto* s = e.what.as<staleness_event>();
  if (!s) return std::nullopt;
  return repl_reply{kind::ok, r.json ? event_line(e.what, event_form::session) : repl_staleness_text(*s), {}};
}
constexpr repl_following to_the_staleness = {.name = "staleness", .handle_event = hear_staleness};

repl_reply run_staleness(const repl_request& r) {
  if (r.args.size() > 1) return r.usage("usage: staleness [JOB]");
  const auto job = repl_job_of(r.backend.view(), r.args, 0);
  return repl_tell_and_follow(r, job, {staleness_command{}});
}

// --- layer

const repl_layer* find_layer(const repl_job& j, const std::string& name) {
  for (const auto& l : j.about->layers)
    if (l.name == name) return &l;
  return nullptr;
}

std::string without_histograms(const std::string& why) { return "no histograms: " + why; }

// The reply to `_follow layer JOB EVENT LEFT COMMAND NAME`: the layer, with the histograms in
// `said`.
repl_reply show_layer(const repl_request& r, const std::vector<repl_event>& said, const std::string& note) {
  std::uint32_t id = 0;
  const auto view = r.backend.view();
  const auto* j = r.args.size() == repl_follow_words + 1 && repl_number(r.args[1], id) ? find_job(view, id) : nullptr;
  const auto* l = j && j->about ? find_layer(*j, r.args[repl_follow_words]) : nullptr;
  if (!l) return r.fail("the layer is not available on this node any more");
  if (const auto fine = r.backend.check_read(job_route::histograms, id); !fine)
    return {kind::ok, repl_layer_text(r.json, view, *j, *l, {}, without_histograms(fine.error().text)), {}};
  return {kind::ok, repl_layer_text(r.json, view, *j, *l, said, note), {}};
}

// The last histogram of the request is its outcome; `said` has all.
std::optional<repl_reply> hear_histograms(const repl_request& r, const repl_event& e, const std::vector<repl_event>& said) {
  if (const auto* why = repl_refusal(e)) return show_layer(r, {}, *why);
  return e.what.is<histogram_event>() ? std::optional(show_layer(r, said, {})) : std::nullopt;
}
repl_reply show_layer_alone(const repl_request& r, const std::string& why) { return show_layer(r, {}, without_histograms(why)); }
constexpr repl_following to_the_histograms = {.name = "layer",
                                              .handle_event = hear_histograms,
                                              .patience = repl_patience / 2,
                                              .from_the_start = true,
                                              .give_up = show_layer_alone};

repl_reply run_layer(const repl_request& r) {
  if (r.args.size() > 2) return r.usage("usage: layer [NAME] [JOB]");
  const auto v = r.backend.view();
  const auto job = repl_job_of(v, r.args, 1);
  if (!job) return r.fail(job.error().text);
  const auto* j = find_job(v, *job);
  if (!j || !j->about) return r.fail("the layers of job " + std::to_string(*job) + " are not available on this node");
  if (r.args.empty()) return {kind::ok, repl_layers_text(r.json, *j->about), {}};
  if (const auto* l = find_layer(*j, r.args[0])) {
    const bool trains = !l->parameters.empty() && (j->state == job_state::running || j->state == job_state::paused);
    const auto fine = r.backend.check_read(job_route::histograms, *job);
    if (trains && fine) {
      auto reply = repl_tell_and_follow(r, job, {histograms_command{}}, {l->name});
      if (reply.how == kind::ok) return reply;
    }
    const auto note = trains && !fine ? without_histograms(fine.error().text) : std::string();
    return {kind::ok, repl_layer_text(r.json, v, *j, *l, {}, note), {}};
  }
  std::vector<std::string> names;
  for (const auto& l : j->about->layers) names.push_back(l.name);
  return r.usage("no layer " + in_quotes(r.args[0]) + did_you_mean(r.args[0], names));
}

// --- checkpoint, eval

std::optional<repl_reply> hear_checkpoint(const repl_request& r, const repl_event& e, const std::vector<repl_event>&) {
  if (const auto* lost = e.what.as<checkpoint_lost_event>()) return r.fail(lost->message);
  const auto* c = e.what.as<checkpoint_event>();
  if (!c) return std::nullopt;
  return repl_outcome(r, e, "checkpoint of step " + std::to_string(e.what.step) + (c->file.empty() ? "" : " in " + c->file));
}
constexpr repl_following to_the_checkpoint = {
    .name = "checkpoint", .handle_event = hear_checkpoint, .patience = repl_long_patience};

std::optional<repl_reply> hear_evaluation(const repl_request& r, const repl_event& e, const std::vector<repl_event>&) {
  if (!e.what.is<eval_event>()) return std::nullopt;
  std::string values;
  for (const auto& [name, value] : flatten(e.what).values)
    values += (values.empty() ? ": " : ", ") + name + " " + (name == "accuracy" ? fixed_text(value, 4) : repl_text::number(value));
  return repl_outcome(r, e, "evaluation of step " + std::to_string(e.what.step) + values);
}
constexpr repl_following to_the_evaluation = {.name = "eval", .handle_event = hear_evaluation, .patience = repl_long_patience};

repl_reply run_eval(const repl_request& r) {
  const auto view = r.backend.view();
  const auto job = repl_job_of(view, r.args, 0);
  const auto* j = job ? find_job(view, *job) : nullptr;
  if (j && j->about && !j->about->evaluates) return r.fail(repl_named(*job) + " has no test data to evaluate on");
  return repl_tell_and_wait(r, {eval_command{}});
}

}  // namespace

std::vector<repl_command> repl_commands_that_ask() {
  using namespace repl_choice;
  return {
      {.help = {"staleness",
                "[JOB]",
                "show the age, in clocks, of the weights that steps have used, by parameter",
                {repl_job_argument()},
                {{"staleness", "a table: for each parameter, how many reads were 0, 1, 2, ... clocks old"}}},
       .run = run_staleness,
       .follow = &to_the_staleness,
       .completes = {jobs},
       .needs = right::look},
      {.help =
           {"layer",
            "[NAME] [JOB]",
            "show a layer's type, shapes, parameters, place and times, and histograms of its weights and gradients; without NAME, "
            "list all layers",
            {{"NAME", "a layer of the job"}, repl_job_argument()},
            {{"layer", "lists all layers"}, {"layer conv1", "shows layer conv1"}}},
       .run = run_layer,
       .follow = &to_the_histograms,
       .completes = {layers, jobs},
       .needs = right::look},
      {.help = {"checkpoint",
                "[JOB]",
                "write a checkpoint at the next step boundary, and print its step and file",
                {repl_job_argument()},
                {{"checkpoint", "of the running job"}}},
       .run = [](const repl_request& r) { return repl_tell_and_wait(r, {checkpoint_command{}}); },
       .follow = &to_the_checkpoint,
       .completes = {jobs},
       .needs = right::run_jobs},
      {.help = {"eval",
                "[JOB]",
                "evaluate on the test data at the next step boundary, and print accuracy and loss",
                {repl_job_argument()},
                {{"eval", "evaluates the running job"}}},
       .run = run_eval,
       .follow = &to_the_evaluation,
       .completes = {jobs},
       .needs = right::run_jobs},
  };
}

}  // namespace troupe
