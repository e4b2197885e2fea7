// `troupe train JOB --cluster FILE`: submits the job to the cluster's coordinator and follows it;
// Ctrl-C detaches.
#include <atomic>
#include <optional>

#include "actors/control/client/client.hpp"
#include "actors/control/client/cluster_recording.hpp"
#include "actors/supervision/stop_signals.hpp"
#include "apps/commands/machine.hpp"
#include "apps/commands/train/head.hpp"
#include "apps/commands/train/progress.hpp"
#include "apps/commands/train/train.hpp"
#include "runtime/node/config/cluster_file.hpp"
#include "runtime/node/config/job_file.hpp"
#include "runtime/node/config/prepare_text.hpp"
#include "runtime/node/node_tables.hpp"
#include "runtime/node/trace_jobs.hpp"
#include "runtime/record/checkpoint.hpp"

namespace troupe {
namespace {

// Splits "place: text", the form of messages from the cluster. A place has no blanks, except for
// "--set key=value".
std::pair<std::string, std::string> place_and_text(const std::string& message) {
  const auto colon = message.find(": ");
  const auto blank = message.find(' ', message.starts_with("--set ") ? 6 : 0);
  if (colon == std::string::npos || blank < colon) return {{}, message};
  return {message.substr(0, colon), message.substr(colon + 2)};
}

diagnostics wrong_machine(std::string text) { return diagnostics(1, diagnostic{{"--machine"}, std::move(text)}); }

// The reducer that is the best at the rates of `a.machine`, for a job that leaves the choice to
// Troupe. The nodes would all assume the same rates instead, so that they choose alike.
expected<std::string, diagnostics> reducer_by_machine(const train_arguments& a, const std::vector<node_spec>& nodes) {
  const auto rates = read_machine(a.machine);
  if (!rates) return unexpected(rates.error());
  if (!rates->exchange) return unexpected(wrong_machine(a.machine + " has no bandwidth in [network]"));
  const auto text = read_config_text(a.file);
  if (!text) return unexpected(text.error());
  std::string named;
  const auto j = prepare_text({*text, a.file, a.overrides, {}, a.load_plugins}, std::make_shared<const tables>(node_tables()),
                              nodes, [&](job_spec& s, std::vector<node_spec>&) { named = s.train.reducer; });
  if (!j) return unexpected(j.error());
  if (named != "auto") return unexpected(wrong_machine("serves train.exchange.reducer = \"auto\"; the job has \"" + named + '"'));
  const auto list = seconds_of_reducers(*rates->exchange, **j);
  return list.empty() ? "server" : list.front().first;
}

expected<cluster_submission, diagnostics> submission_of(const train_arguments& a, const output& out) {
  auto cluster = read_cluster_file(a.cluster);
  if (!cluster) return unexpected(std::move(cluster).error());
  auto text = read_config_text(a.file);
  if (!text) return unexpected(std::move(text).error());
  if (!a.load_plugins)  // of a run: refuses one that names plugins
    if (const auto none = with_plugins({*text, a.file, a.overrides, {}, false}, std::make_shared<const tables>(node_tables()));
        !none)
      return unexpected(none.error());
  cluster_submission s;
  s.where = coordinator_of(*cluster);
  s.file = a.file;
  s.text = std::move(*text);
  s.overrides = a.overrides;
  if (!a.machine.empty()) {
    const auto reducer = reducer_by_machine(a, cluster->nodes);
    if (!reducer) return unexpected(reducer.error());
    s.overrides.push_back("train.exchange.reducer=" + *reducer);
    out.remark("reducer by the rates of " + a.machine + ": " + *reducer);
  }
  s.out = a.out;
  if (!a.weights.empty()) s.from = cluster_submission::beginning::weights;
  if (!a.resume.empty()) s.from = cluster_submission::beginning::checkpoint;
  s.given = a.weights + a.resume;  // at most one of them is set
  return s;
}

// Refuses a damaged file before it is sent. The coordinator, which has the job's data, checks
// whether the file belongs to the job.
expected<void, record_error> check_given(const train_arguments& a) {
  if (!a.weights.empty())
    if (auto read = read_safetensors(a.weights); !read) return unexpected(std::move(read).error());
  if (!a.resume.empty())
    if (auto read = load_checkpoint(a.resume); !read) return unexpected(std::move(read).error());
  return {};
}

std::string detached_text(const cluster_outcome& end, const std::string& weights, const std::string& cluster) {
  if (end.number == 0) return "detached before the job was accepted; `jobs` in the REPL shows whether it was";
  const auto number = std::to_string(end.number), where = " --cluster " + cluster;
  return "detached: job " + number + " continues; follow it again with: troupe attach " + number + where +
         (weights.empty() ? "" : " --out " + weights) + "; stop it with: troupe repl" + where + " -c \"stop " + number + "\"";
}

// The job for `troupe critical`, or none if this machine cannot read it: a job with plugins is
// prepared, which needs the plugins and the data here.
trace_job traced_job_of(const cluster_submission& s, const std::vector<node_spec>& nodes) {
  const auto all = std::make_shared<const tables>(node_tables());
  if (const auto spec = parse_job(s.text, s.file, *all, s.overrides)) return trace_job_of(*spec, *all, nodes, 0);
  const auto prepared = prepare_text({s.text, s.file, s.overrides, {}, true}, all, nodes);
  return prepared ? trace_job_of(**prepared, 0) : trace_job{};
}

// Writes what the roles on all nodes do while the job is followed into a trace file.
int traced(const cluster_submission& s, const train_arguments& a, const output& out) {
  const auto cluster = read_cluster_file(a.cluster);
  if (!cluster) return out.wrong(cluster.error());
  const auto trace = cluster_recording::start(a.trace, *cluster, traced_job_of(s, cluster->nodes));
  if (!trace) return out.failed(a.trace, trace.error().text);
  const int code = follow_on_cluster(s, a.cluster, false, out);
  const auto written = (*trace)->stop();
  if (!written) return out.failed(a.trace, written.error().text);
  if (!out.json()) out.remark("trace " + trace_summary_text(*written));
  return code;
}

}  // namespace

int run_train_cluster(const train_arguments& a, const output& out) {
  if (!a.checkpoint.empty())
    return out.wrong("--checkpoint", "not supported with --cluster: the coordinator's node keeps checkpoints in its state folder");
  const bool names_run = !a.run.empty() || !a.weights.empty() || !a.resume.empty();  // --run-dir says where it is
  if ((!a.run_dir.empty() && !names_run) || a.no_run)
    return out.wrong(a.no_run ? "--no-run" : "--run-dir",
                     "not supported with --cluster: the coordinator's node keeps the run folder in its state folder");
  if (!a.metrics.empty())
    return out.wrong("--metrics", "not supported with --cluster: daemons serve /metrics (metrics_address in the cluster file)");
  if (!a.page.empty())
    return out.wrong("--page", "not supported with --cluster: the coordinator's daemon serves the page (page in the cluster file)");
  if (const auto ok = check_given(a); !ok) return wrong_file(out, ok.error());
  for (const auto& file : {a.out, a.trace})
    if (const auto fine = file.empty() ? expected<void>() : check_writable_file(file); !fine)
      return out.wrong(file, fine.error().text);
  const auto made = submission_of(a, out);
  if (!made) return out.wrong(made.error());
  if (a.trace.empty()) return follow_on_cluster(*made, a.cluster, a.out.empty(), out);
  return traced(*made, a, out);
}

int follow_on_cluster(const cluster_submission& s, const std::string& cluster, bool only_prints, const output& out) {
  std::atomic<bool> detach{false};
  const stop_signals watch([&](int) { detach = true; });
  std::optional<job_event> done;
  bool told_error = false;
  cluster_outcome end;
  {
    progress announced(out, {});
    auto followed = s;
    followed.on_accepted = [&](const accepted_job& j) {
      announced.extent({j.first_step, j.last_step, j.steps_per_epoch, static_cast<std::int64_t>(j.batch), true});
      announced.head(cluster_head(j, cluster));
    };
    end = run_on_cluster(
        followed,
        [&](const job_event& e) {
          // The event "done" is printed last, after the weights have been fetched.
          if (e.event.is<done_event>()) return void(done = e);
          const auto* bad = e.event.as<error_event>();
          if (!bad) {
            announced.event(e.event);
            if (only_prints && stdout_unread()) detach = true;
            return;
          }
          told_error = true;
          const auto [where, text] = place_and_text(bad->message);
          announced.event({e.event.step, error_event{text, where}});
        },
        detach);
    if (end.how == cluster_outcome::end::done && done) {
      if (s.out.empty()) announced.end_with({{}, {}, {"troupe fetch " + std::to_string(end.number) + " --cluster " + cluster}});
      announced.event(done->event);
    }
  }
  if (end.how == cluster_outcome::end::detached && !out.json() && !stdout_unread()) out.remark(detached_text(end, s.out, cluster));
  const bool reached = end.number != 0 || end.how != cluster_outcome::end::failed;
  if (!told_error)
    for (const auto& m : end.messages) {
      const auto [where, text] = place_and_text(m);
      out.failed(where, reached ? text : text + "; try: troupe doctor --cluster " + cluster);
    }
  // A script must not go on to use a file that was not written.
  if (end.how == cluster_outcome::end::detached && !s.out.empty()) return watch.exit_code(exit_done);
  return end.exit_code();
}

}  // namespace troupe
