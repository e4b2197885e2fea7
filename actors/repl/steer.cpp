// Commands whose answer is an event of the job (`mode`, `checkpoint`, `stop`, `staleness`, `watch`), and `layer`.
//
// The session keeps nothing between two lines, and must not wait: a daemon's REPL answers everybody. So a reply that is not the whole
// answer says which line to ask next: `_follow WHAT JOB EVENT LEFT` looks at what JOB has said behind event EVENT. LEFT counts the
// askings (all but loss) or lines (loss; 0: all) that are left. run_line() is the loop around it.
#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "actors/repl/about.hpp"
#include "actors/repl/request.hpp"
#include "runtime/graph/wording.hpp"

namespace troupe {
namespace {

using kind = repl_reply::kind;

constexpr std::uint64_t patience = std::chrono::seconds(60) / repl_ask_every;
constexpr std::uint64_t long_patience = 3 * patience;  // nodes may have to open their data first, disks may be slow
const std::string sync_prefix = "train.sync.";
constexpr std::array<std::string_view, 6> followed = {"mode", "move", "checkpoint", "stop", "staleness", "loss"};

repl_reply follow(const std::string& what, std::uint32_t job, std::uint64_t from, std::uint64_t left, std::string text = {}) {
  return {kind::ok, std::move(text),
          "_follow " + what + " " + std::to_string(job) + " " + std::to_string(from) + " " + std::to_string(left)};
}

// Passes command `c` on to the job's coordinator, and follows the job's events until one answers it.
repl_reply tell_and_follow(const repl_request& r, const char* what, const std::optional<std::uint32_t>& job, std::string error,
                           const command& c) {
  if (!job) return r.fail(error);
  const auto from = r.backend.events().last();
  error = r.backend.tell(*job, c);
  return error.empty()
             ? follow(what, *job, from, c.name == "mode" || c.name == "set" || c.name == "staleness" ? patience : long_patience)
             : r.fail(error);
}

// They are told at once, and answered again when it is known what came of it: files may be impossible to write.
repl_reply tell_and_wait(const repl_request& r, const char* what) {
  if (r.args.size() > 1) return r.usage(std::string(what) + " takes at most a job's number");
  std::string error;
  const auto view = r.backend.view();
  const auto job = repl_job_of(view, r.args, 0, error);
  if (!job) return r.fail(error);
  const bool queued =
      std::any_of(view.jobs.begin(), view.jobs.end(), [&](const auto& j) { return j.id == *job && j.state == "queued"; });
  const command c{what, {}, 0, {}};
  auto reply = tell_and_follow(r, what, job, error, c);
  if (reply.how != kind::ok) return reply;
  reply.text = repl_told_text(r.json, *job, c);
  if (queued && c.name == "stop") reply.next.clear();  // it goes out of the queue, and there is nothing of it to store
  return reply;
}

const repl_job* find_job(const repl_view& v, std::uint32_t id) {
  for (const auto& j : v.jobs)
    if (j.id == id) return &j;
  return nullptr;
}

bool is_over(const repl_view& v, std::uint32_t id) {
  const auto* j = find_job(v, id);
  return !j || j->state == "done" || j->state == "stopped" || j->state == "failed" || j->state == "queued";
}

// A word at the end without '=' is the job.
repl_reply switch_mode(const repl_request& r, const std::string& name, const repl_words& pairs) {
  command c{"mode", name, 0, {}};
  std::string error;
  std::optional<std::uint32_t> job;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    const auto is = pairs[i].find('=');
    const bool last = i + 1 == pairs.size();
    if (is == std::string::npos && last && !job) {
      job = repl_job_of(r.backend.view(), pairs, i, error);
      if (!job) return r.fail(error + " (options are written key=value)");
    } else if (is == std::string::npos || is == 0) {
      return r.usage(in_quotes(pairs[i]) + " is no option: options are written key=value, as in mode ssp staleness=3");
    } else {
      c.options.emplace_back(pairs[i].substr(0, is), pairs[i].substr(is + 1));
    }
  }
  if (!job) job = repl_job_of(r.backend.view(), {}, 0, error);
  return tell_and_follow(r, "mode", job, error, c);
}

// The last word is the job when there is one word more than the command takes.
repl_reply amend_job(const repl_request& r, command c, std::size_t takes) {
  std::string error;
  const auto job = repl_job_of(r.backend.view(), r.args, takes, error);
  return tell_and_follow(r, "move", job, error, c);
}

// --- following

repl_reply follow_mode(const repl_request& r, const repl_event& e) {
  if (e.what.kind == "mode")
    return {kind::ok,
            r.json ? repl_event_json(e.what) : "mode " + e.what.text + " from step " + std::to_string(e.what.step) + " on",
            {}};
  return r.fail(e.what.text);
}

repl_reply follow_move(const repl_request& r, const repl_event& e) {
  if (e.what.kind == "moved") return {kind::ok, r.json ? repl_event_json(e.what) : repl_moved_text(e.what), {}};
  return r.fail(e.what.text);
}

std::string text_of(const repl_event& e, const char* name) {
  for (const auto& [k, v] : e.texts)
    if (k == name) return v;
  return {};
}

bool is_unsaved_checkpoint(const event_effect& e) { return e.kind == "alert" && e.text.starts_with(checkpoint_not_saved); }

repl_reply follow_checkpoint(const repl_request& r, const repl_event& e) {
  if (e.what.kind != "checkpoint") return r.fail(e.what.text);
  const auto file = text_of(e, "file");
  return {kind::ok,
          r.json ? to_json({0, e.what, e.texts})
                 : "checkpoint of step " + std::to_string(e.what.step) + (file.empty() ? "" : " in " + file),
          {}};
}

// The job's end, with whatever of it could not be stored. `said`: what the job has said since it was told to stop.
repl_reply follow_stop(const repl_request& r, const std::vector<repl_event>& said, const repl_event& end) {
  if (end.what.kind == "error") return r.fail(end.what.text);
  std::string unsaved, file;
  const auto add = [&](const std::string& text) {
    if (unsaved.find(text) == std::string::npos) unsaved += (unsaved.empty() ? "" : "\n") + text;
  };
  for (const auto& e : said) {
    if (is_unsaved_checkpoint(e.what)) add(e.what.text);
    if (e.what.kind == "checkpoint") file = text_of(e, "file");
  }
  for (const auto& [k, v] : end.texts)
    if (k == "alert") add(v);
  if (!unsaved.empty()) return r.fail(unsaved);
  if (r.json) return {kind::ok, to_json({0, end.what, end.texts}), {}};
  return {kind::ok,
          "job " + std::to_string(end.job) + (end.what.text == "stopped" ? " stopped" : " done") + " at step " +
              std::to_string(end.what.step) + (file.empty() ? "" : ", checkpoint in " + file),
          {}};
}

repl_reply follow_events(const repl_request& r, const std::string& what, std::uint32_t job, std::uint64_t from,
                         std::uint64_t left) {
  const bool over = is_over(r.backend.view(), job);  // before the events are read: then all it said is among them
  std::string lines;
  const auto events = r.backend.events().after(from, job);
  for (const auto& e : events) {
    if (what != "stop") from = e.number;  // how a job ended is told with what it said on the way there
    const auto& said = e.what.kind;
    const bool end = said == "done" || said == "error";
    if (said == not_told && what != "loss") return r.fail(e.what.text);
    if (what == "stop" && end) return follow_stop(r, events, e);
    if (what == "checkpoint" && (said == "checkpoint" || is_unsaved_checkpoint(e.what))) return follow_checkpoint(r, e);
    if (what == "mode" && (said == "mode" || said == "refused")) return follow_mode(r, e);
    if (what == "move" && (said == "moved" || said == "refused")) return follow_move(r, e);
    if (what == "staleness" && said == "staleness") return {kind::ok, repl_staleness_text(r.json, e.what), {}};
    if (what == "loss" && said == "step") {
      lines += (lines.empty() ? "" : "\n") + (r.json ? repl_event_json(e.what) : repl_step_text(e.what));
      if (left > 0 && --left == 0) return {kind::ok, lines, {}};
    }
    if (end && what == "loss") return {kind::ok, lines, {}};
    if (end) return r.fail("job " + std::to_string(job) + " ended first");
  }
  if (over && what == "loss") return {kind::ok, lines, {}};
  if (over) return r.fail("job " + std::to_string(job) + " does not run");
  if (what != "loss" && --left == 0)
    return r.fail("job " + std::to_string(job) + " has not come to it yet: `waits` says what it waits for");
  return follow(what, job, from, left, std::move(lines));
}

}  // namespace

repl_reply repl_mode_command(const repl_request& r) {
  if (r.args.empty()) return r.usage("mode NAME [key=value...] [JOB]");
  return switch_mode(r, r.args[0], {r.args.begin() + 1, r.args.end()});
}

repl_reply repl_move(const repl_request& r) {
  if (r.args.size() < 2 || r.args.size() > 3) return r.usage("move LAYER NODE [JOB]; LAYER.K is part K of a layer in parts");
  return amend_job(r, {"move", r.args[0], 0, {{"node", r.args[1]}}}, 2);
}

repl_reply repl_drain(const repl_request& r) {
  if (r.args.empty() || r.args.size() > 2) return r.usage("drain NODE [JOB]");
  return amend_job(r, {"drain", r.args[0], 0, {}}, 1);
}

repl_reply repl_add_node(const repl_request& r) {
  if (r.args.empty() || r.args.size() > 2) return r.usage("add-node NODE [JOB]");
  return amend_job(r, {"add-node", r.args[0], 0, {}}, 1);
}

repl_reply repl_set_mode_option(const repl_request& r) {
  if (r.args.size() < 2 || r.args.size() > 3 || r.args[0].size() == sync_prefix.size())
    return r.usage("set train.sync.KEY VALUE [JOB]");
  std::string error;
  const auto job = repl_job_of(r.backend.view(), r.args, 2, error);
  return tell_and_follow(r, "mode", job, error, {"set", r.args[0], 0, {{r.args[0].substr(sync_prefix.size()), r.args[1]}}});
}

repl_reply repl_checkpoint(const repl_request& r) { return tell_and_wait(r, "checkpoint"); }
repl_reply repl_stop(const repl_request& r) { return tell_and_wait(r, "stop"); }

repl_reply repl_staleness(const repl_request& r) {
  if (r.args.size() > 1) return r.usage("staleness takes at most a job's number");
  std::string error;
  const auto job = repl_job_of(r.backend.view(), r.args, 0, error);
  return tell_and_follow(r, "staleness", job, error, {"staleness", {}, 0, {}});
}

repl_reply repl_watch(const repl_request& r) {
  std::uint64_t lines = 0;
  const bool good = !r.args.empty() && r.args.size() <= 3 && r.args[0] == "loss" &&
                    (r.args.size() < 2 || (repl_number(r.args[1], lines) && lines > 0));
  if (!good) return r.usage("watch loss [LINES] [JOB]");
  std::string error;
  const auto job = repl_job_of(r.backend.view(), r.args, 2, error);
  return job ? follow("loss", *job, r.backend.events().last(), lines) : r.fail(error);
}

repl_reply repl_follow(const repl_request& r) {
  std::uint32_t job = 0;
  std::uint64_t from = 0, left = 0;
  const bool good = r.args.size() == 4 && std::find(followed.begin(), followed.end(), r.args[0]) != followed.end() &&
                    repl_number(r.args[1], job) && repl_number(r.args[2], from) && repl_number(r.args[3], left) &&
                    (r.args[0] == "loss" || left > 0);
  if (!good) return r.usage("_follow is for programs: WHAT JOB EVENT LEFT");
  return follow_events(r, r.args[0], job, from, left);
}

repl_reply repl_layer_command(const repl_request& r) {
  if (r.args.size() > 2) return r.usage("layer [NAME] [JOB]");
  std::string error;
  const auto v = r.backend.view();
  const auto job = repl_job_of(v, r.args, 1, error);
  if (!job) return r.fail(error);
  const auto* j = find_job(v, *job);
  if (!j || !j->about) return r.fail("the layers of job " + std::to_string(*job) + " are not known here");
  if (r.args.empty()) return {kind::ok, repl_layers_text(r.json, *j->about), {}};
  std::vector<std::string> names;
  for (const auto& l : j->about->layers) {
    if (l.name == r.args[0]) return {kind::ok, repl_layer_text(r.json, l), {}};
    names.push_back(l.name);
  }
  return r.usage("no layer " + in_quotes(r.args[0]) + did_you_mean(r.args[0], names));
}

// --- completion

namespace {

const repl_about* about_of(const repl_view& v) {
  const repl_about* found = nullptr;
  for (const auto& j : v.jobs)
    if (j.about && (!found || j.state == "running" || j.state == "paused")) found = j.about.get();
  return found;
}

const std::vector<repl_mode>& stock_modes() {
  static const auto list = [] {
    mode_registry r;
    add_stock_modes(r);
    return repl_modes(r);
  }();
  return list;
}

// Everything that may stand behind `before`.
std::vector<std::string> candidates(const repl_words& before, const repl_view& v) {
  std::vector<std::string> all;
  const auto* about = about_of(v);
  const auto& modes = about ? about->modes : stock_modes();
  const auto& first = before.empty() ? std::string() : before[0];
  if (before.empty() || (first == "help" && before.size() == 1)) {
    for (const auto& c : repl_commands()) all.push_back(c.name);
  } else if (first == "set" && before.size() == 1) {
    all = {"train.dynamics.lr", "train.dynamics.decay"};
    for (const auto& m : modes)
      for (const auto& o : m.options) all.push_back(sync_prefix + o);
  } else if (first == "mode" && before.size() == 1) {
    for (const auto& m : modes) all.push_back(m.name);
  } else if (first == "mode") {
    for (const auto& m : modes)
      if (m.name == before[1])
        for (const auto& o : m.options) all.push_back(o + "=");
  } else if (first == "layer" && before.size() == 1 && about) {
    for (const auto& l : about->layers) all.push_back(l.name);
  } else if (first == "move" && before.size() == 1 && about) {
    for (const auto& l : about->layers) all.push_back(l.name);
  } else if ((first == "move" && before.size() == 2) || ((first == "drain" || first == "add-node") && before.size() == 1)) {
    for (const auto& n : v.nodes) all.push_back(n.name);
    if (v.nodes.empty()) all.push_back(v.node);
  } else if (first == "watch" && before.size() == 1) {
    all = {"loss"};
  } else if (first == "roles" && before.size() == 1) {
    for (const auto& n : v.nodes) all.push_back(n.name);
  }
  return all;
}

}  // namespace

repl_reply repl_complete(const repl_request& r) {
  const auto at = r.line.find("_complete ");
  const auto typed = at == std::string::npos ? std::string() : r.line.substr(at + 10);
  const auto blank = typed.find_last_of(' ');
  const auto word = blank == std::string::npos ? typed : typed.substr(blank + 1);
  auto fits = candidates(blank == std::string::npos ? repl_words{} : repl_split(typed.substr(0, blank)), r.backend.view());
  std::erase_if(fits, [&](const auto& c) { return !c.starts_with(word); });
  std::sort(fits.begin(), fits.end());
  fits.erase(std::unique(fits.begin(), fits.end()), fits.end());
  std::string text;
  for (const auto& f : fits) text += (text.empty() ? "" : "\n") + f;
  return {kind::ok, text, {}};
}

}  // namespace troupe
